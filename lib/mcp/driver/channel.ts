/** One life of the aggregator process: its pipes, and what waits for them. */
import { SbxError } from "../../base/error/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import type { Kind } from "../entry.ts";
import { LINE_BYTES_MAX } from "../limit.ts";
import { fitsLine, LineWriter, readLines } from "../ndjson.ts";
import { type CredentialResolver, OutboundServer } from "../outbound/mod.ts";
import { type CallOptions, Pending } from "./pending.ts";
import { startAggregator } from "./process.ts";

/** Time that the process has to end by itself. */
const GOODBYE_MS = 3000;

export interface ChannelOptions {
  /** program and arguments */
  command: string[];
  definitions: AggregatorDefinition[];
  /** a folder that only this user may enter */
  dir: string;
  resolve?: CredentialResolver;
  onChanged(kinds: Kind[]): void;
  log(line: string): void;
}

export class Channel {
  /** settles when the process is gone */
  readonly gone: Promise<void>;
  readonly pid: number;
  readonly #pending = new Pending();
  readonly #outbound: OutboundServer;
  readonly #writer: LineWriter;
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  readonly #child: Deno.ChildProcess;
  readonly #log: (line: string) => void;
  #closed = false;

  /** @throws {SbxError} `mcp.failed` when it cannot be started, `mcp.too_large` for more definitions than fit on a line */
  constructor({ command, definitions, dir, resolve, onChanged, log }: ChannelOptions) {
    const first = checkedLine(JSON.stringify(definitions), "the definitions of the MCP servers");
    this.#log = log;
    this.#outbound = new OutboundServer(definitions, {
      resolve,
      onChanged,
      onProgress: (id, progress) => this.#pending.progress(id, progress),
    });
    const { child, connected } = startAggregator(command, dir, this.#outbound, "piped");
    this.#child = child;
    this.pid = child.pid;
    this.#stdin = child.stdin.getWriter();
    this.#writer = new LineWriter({ write: (bytes) => this.#stdin.write(bytes) });
    this.#writer.write(first);
    connected.catch(() => this.kill());
    this.gone = this.#run();
  }

  /**
   * Sends a request and waits for its answer.
   *
   * @throws {SbxError} `mcp.channel_closed`, `mcp.too_large`, `mcp.timeout`, `mcp.failed`
   */
  async request(
    method: string,
    params: Record<string, unknown> | undefined,
    timeoutMs: number,
    options: CallOptions = {},
  ): Promise<Record<string, unknown>> {
    if (this.#closed) throw channelClosed();
    options.signal?.throwIfAborted();
    const id = this.#pending.nextId();
    const line = checkedLine(JSON.stringify({ id, method, params }), `the request ${method}`);
    const what = typeof params?.name === "string" ? `MCP ${method} ${params.name}` : `MCP ${method}`;
    const answer = this.#pending.wait(id, what, timeoutMs, options, () => this.#outbound.abort(id));
    this.#writer.write(line);
    return await answer;
  }

  /** Replaces the definitions: what the aggregator may reach changes with what it is told. */
  async refresh(definitions: AggregatorDefinition[], timeoutMs: number): Promise<void> {
    const servers = checkedLine(JSON.stringify(definitions), "the definitions of the MCP servers");
    this.#outbound.allow(JSON.parse(servers));
    try {
      await this.request("refresh", { servers: definitions }, timeoutMs);
    } finally {
      this.#outbound.settle();
    }
  }

  /** Lets it say goodbye to its servers, and ends it. */
  async close(): Promise<void> {
    await this.request("shutdown", undefined, GOODBYE_MS).catch(() => {});
    await this.#stdin.close().catch(() => {});
    const timer = setTimeout(() => this.kill(), GOODBYE_MS);
    await this.gone;
    clearTimeout(timer);
  }

  kill(): void {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // gone already
    }
  }

  async #run(): Promise<void> {
    await this.#read(new PipeSource(this.#child.stdout));
    this.#closed = true;
    // An end of its output is the end of it, whatever it still does.
    this.kill();
    this.#outbound.close();
    this.#pending.rejectAll(channelClosed());
    await this.#stdin.abort().catch(() => {});
    await this.#child.status;
  }

  /** An answer that nobody waits for any more is no news. All progress of a call comes before its result. */
  async #settle(answer: Record<string, unknown>): Promise<void> {
    if (this.#pending.hearsProgress(answer.id)) await this.#outbound.sync();
    this.#pending.settle(answer.id, answer);
  }

  async #read(source: PipeSource): Promise<void> {
    try {
      for await (const line of readLines(source)) {
        const answer = "text" in line ? parsed(line.text) : undefined;
        if (!answer) this.#log("a malformed line of the MCP aggregator is skipped");
        else this.#settle(answer);
      }
    } catch {
      // the pipe broke: it is over
    }
  }
}

/** A pipe as `read` hands it out; one buffer goes to and fro, where a plain reader makes a new one for every piece. */
class PipeSource {
  readonly #reader: ReadableStreamBYOBReader;
  #buffer = new ArrayBuffer(64 * 1024);

  constructor(stream: ReadableStream<Uint8Array>) {
    this.#reader = stream.getReader({ mode: "byob" });
  }

  async read(into: Uint8Array): Promise<number | null> {
    const length = Math.min(into.length, this.#buffer.byteLength);
    const { value, done } = await this.#reader.read(new Uint8Array(this.#buffer, 0, length));
    if (done || !value) return null;
    into.set(value);
    this.#buffer = value.buffer;
    return value.length;
  }
}

/** The failure of everything that would need the aggregator (spec.md, "Aggregator subprocess lifecycle"). */
export function channelClosed(): SbxError {
  return new SbxError("mcp.channel_closed", "the MCP aggregator is not running: its channel is closed", {
    hint: "it is started again by itself; try again",
  });
}

function checkedLine(line: string, what: string): string {
  if (fitsLine(line)) return line;
  throw new SbxError(
    "mcp.too_large",
    `${what} are over ${LINE_BYTES_MAX} bytes, the longest line of the protocol`,
  );
}

function parsed(text: string): Record<string, unknown> | undefined {
  try {
    const value = JSON.parse(text);
    return typeof value === "object" && value !== null ? value : undefined;
  } catch {
    return undefined;
  }
}
