/**
 * A stdio MCP server in this process: what it reads and writes are lines, as those of a program in a VM are.
 */
import type { StdioProgram } from "../../lib/mcp/mod.ts";
import type { Parsed } from "./json.ts";

type Message = Record<string, Parsed>;

export class ScriptedProgram implements StdioProgram {
  readonly messages: Message[] = [];
  isClosed = false;
  end: string | undefined;
  readonly #answer: (message: Message) => unknown;
  readonly #output = new TransformStream<Uint8Array, Uint8Array>(undefined, undefined, { highWaterMark: 64 });
  readonly #writer = this.#output.writable.getWriter();
  readonly #reader = this.#output.readable.getReader();
  #rest: Uint8Array = new Uint8Array(0);

  /** @param answer result of a request beyond initialize and tools/list; a promise is awaited */
  constructor(answer: (message: Message) => unknown = () => ({})) {
    this.#answer = answer;
  }

  async read(into: Uint8Array): Promise<number | null> {
    if (this.#rest.length === 0) {
      const { value, done } = await this.#reader.read();
      if (done) return null;
      this.#rest = value;
    }
    const read = Math.min(into.length, this.#rest.length);
    into.set(this.#rest.subarray(0, read));
    this.#rest = this.#rest.subarray(read);
    return read;
  }

  async write(bytes: Uint8Array): Promise<void> {
    const message = JSON.parse(new TextDecoder().decode(bytes));
    this.messages.push(message);
    if (message.id === undefined || message.method === undefined) return;
    const result = message.method === "initialize"
      ? {
        protocolVersion: message.params.protocolVersion,
        capabilities: { tools: { listChanged: true } },
        serverInfo: { name: "scripted", version: "1" },
      }
      : message.method === "tools/list"
      ? { tools: [{ name: "do", description: "does it", inputSchema: { type: "object" } }] }
      : await this.#answer(message);
    if (result !== undefined) this.say(JSON.stringify({ jsonrpc: "2.0", id: message.id, result }));
  }

  /** Writes a line to its output. */
  say(line: string): void {
    this.print(`${line}\n`);
  }

  /** Writes to its output. */
  print(text: string): void {
    this.#writer.write(new TextEncoder().encode(text)).catch(() => {});
  }

  /** Ends it. */
  die(reason: string): void {
    this.end = reason;
    this.#writer.close().catch(() => {});
  }

  close(): void {
    this.isClosed = true;
    this.die("it was closed");
  }
}
