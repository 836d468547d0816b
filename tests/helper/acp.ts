/** An editor of the SDK and an agent whose every message the test writes, with sbx's relay between them. */
import * as acp from "@agentclientprotocol/sdk";
import { type FileAccess, type Pipes, relay } from "../../lib/acp/mod.ts";
import type { AskAnswer, AskView } from "../../lib/client/api/mod.ts";

/** A message of JSON-RPC, as it goes over the line. */
// deno-lint-ignore no-explicit-any
export type Raw = any;

/** Two ends of one connection. */
export function pipePair(): [Pipes, Pipes] {
  const [there, back] = [new TransformStream<Uint8Array>(), new TransformStream<Uint8Array>()];
  return [
    { readable: back.readable, writable: there.writable },
    { readable: there.readable, writable: back.writable },
  ];
}

/** The agent's end: lines as they are. */
export class RawAgent {
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #lines: AsyncIterator<Raw>;

  constructor({ readable, writable }: Pipes) {
    this.#writer = writable.getWriter();
    this.#lines = linesOf(readable);
  }

  /** The next message from sbx. @throws {Error} the connection ended */
  async next(): Promise<Raw> {
    const { value, done } = await this.#lines.next();
    if (done) throw new Error("the connection ended");
    return value;
  }

  async send(message: Raw): Promise<void> {
    await this.text(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
  }

  async text(text: string): Promise<void> {
    await this.#writer.write(new TextEncoder().encode(text));
  }

  /** Answers the next message. @returns its method and its parameters */
  async answer(result: Raw): Promise<{ method: string; params: Raw }> {
    const { id, method, params } = await this.next();
    await this.send({ id, result });
    return { method, params };
  }

  /** Asks sbx. @returns the answer to this question, other messages before it are dropped */
  async ask(id: string | number, method: string, params: Raw): Promise<Raw> {
    await this.send({ id, method, params });
    for (;;) {
      const message = await this.next();
      if (message.id === id && message.method === undefined) return message;
    }
  }

  async close(): Promise<void> {
    await this.#writer.close();
  }
}

async function* linesOf(readable: ReadableStream<Uint8Array>): AsyncGenerator<Raw> {
  let rest = "";
  const decoder = new TextDecoder();
  for await (const bytes of readable) {
    const lines = (rest + decoder.decode(bytes, { stream: true })).split("\n");
    rest = lines.pop()!;
    for (const line of lines) yield JSON.parse(line);
  }
}

/** Handlers of the editor, by method. */
export type EditorHandlers = Record<string, (params: Raw) => unknown>;

/** An editor and an agent with the relay between them. */
export class Relayed implements AsyncDisposable {
  readonly agent: RawAgent;
  readonly editor: acp.ClientConnection;
  /** answers to asks, as the service gets them */
  readonly answered: [string, AskAnswer][] = [];
  /** what the editor was asked and told, in order */
  readonly seen: { method: string; params: Raw }[] = [];
  /** what the relay ended with */
  readonly done: Promise<unknown>;
  seeAsk!: (ask: AskView) => void;
  readonly #line: WritableStream<Uint8Array>;
  readonly #ended = Promise.withResolvers<Error>();

  constructor(
    { dir, access = "none", handlers = {}, failure }: {
      dir: string;
      access?: FileAccess;
      handlers?: EditorHandlers;
      /** what the start fails with */
      failure?: Error;
    },
  ) {
    const [near, far] = pipePair();
    const [guest, agent] = pipePair();
    this.#line = near.writable;
    this.agent = new RawAgent(agent);
    this.done = relay(far, {
      access,
      start: () =>
        failure ? Promise.reject(failure) : Promise.resolve({
          agent: "Robot",
          vm: "robot-calc",
          folder: { host: [dir], guest: "/root/calc" },
          pipes: guest,
          ended: this.#ended.promise,
          watchAsks: (see) => {
            this.seeAsk = see;
            return { [Symbol.dispose]() {} };
          },
          answers: {
            denial: () => ({ scope: "once" }),
            answer: (ask, answer) => Promise.resolve(void this.answered.push([ask.ask_id, answer])),
          },
          [Symbol.dispose]() {},
        }),
    }).catch((error) => error);
    const app = acp.client({ name: "editor" });
    const note = (method: string) => ({ params }: { params: Raw }): Raw => {
      this.seen.push({ method, params });
      return handlers[method]?.(params);
    };
    app.onNotification("session/update", note("session/update"));
    for (const method of ["session/request_permission", "fs/read_text_file", "fs/write_text_file"] as const) {
      app.onRequest(method, note(method));
    }
    app.onRequest("*", ({ method, params }) => note(method)({ params }));
    app.onNotification("*", ({ method, params }) => note(method)({ params }));
    this.editor = app.connect(acp.ndJsonStream(near.writable, near.readable));
  }

  /** Initializes both sides and opens a session. @returns its id */
  async open(dir: string, capabilities: Raw = {}): Promise<string> {
    const started = this.editor.agent.request("initialize", {
      protocolVersion: 1,
      clientCapabilities: {
        fs: { readTextFile: true, writeTextFile: true },
        terminal: true,
        ...capabilities,
      },
    });
    await this.agent.answer({ protocolVersion: 1, agentCapabilities: { loadSession: true } });
    await started;
    const made = this.editor.agent.request("session/new", { cwd: dir, mcpServers: [] });
    await this.agent.answer({ sessionId: "s1" });
    return (await made).sessionId;
  }

  /** The agent's program ends. */
  end(error: Error): void {
    this.#ended.resolve(error);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.editor.close();
    // The editor's end of the line, which the SDK leaves open.
    await this.#line.close().catch(() => {});
    await this.done;
  }
}
