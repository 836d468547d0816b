/** One aggregator process: its pipes and the requests that wait for an answer. */
import { SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import type { EntryKind, RequestAnswerer, ServerNotice } from "../entry.ts";
import { LINE_BYTES_MAX } from "../limit.ts";
import { fitsLine, LineWriter, readLines, valueOf } from "../ndjson.ts";
import {
  type CredentialResolver,
  OutboundServer,
  type ServerLogins,
  type StdioStarter,
} from "../outbound/mod.ts";
import { AnswerParts } from "./parts.ts";
import { type CallOptions, PendingRequests } from "./pending.ts";
import { spawnAggregator } from "./spawn.ts";

/** `ms` for the process to exit on its own. */
const GOODBYE_MS = timeLimit(3000);

export interface AggregatorProcessOptions {
  /** program and arguments */
  command: string[];
  definitions: AggregatorDefinition[];
  /** folder accessible to this user only */
  dir: string;
  resolve?: CredentialResolver;
  logins?: ServerLogins;
  startStdio?: StdioStarter;
  onChanged(kinds: EntryKind[]): void;
  onNotice(notice: ServerNotice): void;
  onRequest: RequestAnswerer;
  log(line: string): void;
}

export class AggregatorProcess {
  /** settles when the process has exited */
  readonly ended: Promise<void>;
  readonly pid: number;
  readonly #pending = new PendingRequests();
  readonly #parts = new AnswerParts();
  readonly #outbound: OutboundServer;
  readonly #writer: LineWriter;
  readonly #stdin: WritableStreamDefaultWriter<Uint8Array>;
  readonly #child: Deno.ChildProcess;
  readonly #log: (line: string) => void;
  #closed = false;

  /**
   * @throws {SbxError} `mcp.failed` when it cannot be started; `mcp.too_large` when the definitions do not fit on a
   * line
   */
  constructor(
    { command, definitions, dir, resolve, logins, startStdio, onChanged, onNotice, onRequest, log }:
      AggregatorProcessOptions,
  ) {
    const first = checkLine(JSON.stringify(definitions), "the list of MCP server definitions");
    this.#log = log;
    this.#outbound = new OutboundServer(definitions, {
      resolve,
      logins,
      startStdio,
      onChanged,
      onNotice,
      onRequest,
      onProgress: (id, progress) => this.#pending.progress(id, progress),
    });
    const { child, connected } = spawnAggregator(command, dir, this.#outbound, "piped");
    this.#child = child;
    this.pid = child.pid;
    this.#stdin = child.stdin.getWriter();
    this.#writer = new LineWriter({ write: (bytes) => this.#stdin.write(bytes) });
    this.#writer.write(first);
    connected.catch(() => this.kill());
    this.ended = this.#run();
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
    const line = checkLine(JSON.stringify({ id, method, params, parts: true }), `the request ${method}`);
    const label = typeof params?.name === "string" ? `MCP ${method} ${params.name}` : `MCP ${method}`;
    const answer = this.#pending.wait(id, label, timeoutMs, options, () => {
      this.#parts.drop(id);
      this.#outbound.abort(id);
    });
    this.#writer.write(line);
    return await answer;
  }

  /** Replaces the definitions, and with them the servers that the aggregator may reach. */
  async refresh(definitions: AggregatorDefinition[], timeoutMs: number): Promise<void> {
    const servers = checkLine(JSON.stringify(definitions), "the list of MCP server definitions");
    this.#outbound.allow(JSON.parse(servers));
    try {
      await this.request("refresh", { servers: definitions }, timeoutMs);
    } finally {
      this.#outbound.settle();
    }
  }

  /** Lets the process close its servers' sessions, then ends it. */
  async close(): Promise<void> {
    await this.request("shutdown", undefined, GOODBYE_MS).catch(() => {});
    await this.#stdin.close().catch(() => {});
    const timer = setTimeout(() => this.kill(), GOODBYE_MS);
    await this.ended;
    clearTimeout(timer);
  }

  kill(): void {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // already exited
    }
  }

  async #run(): Promise<void> {
    await this.#read(new PipeSource(this.#child.stdout));
    this.#closed = true;
    // The end of its output counts as its end, even while it still runs.
    this.kill();
    this.#outbound.close();
    this.#pending.rejectAll(channelClosed());
    await this.#stdin.abort().catch(() => {});
    await this.#child.status;
  }

  /** Delivers an answer after all progress of its call. An answer without a waiting caller is ignored. */
  async #settle(answer: Record<string, unknown>): Promise<void> {
    if (this.#pending.wantsProgress(answer.id)) await this.#outbound.sync();
    this.#pending.settle(answer.id, answer);
  }

  /** Receives an answer, or a part of one. A part without a waiting caller is ignored. */
  #receive(answer: Record<string, unknown>): void {
    if (answer.part === undefined) return void this.#settle(answer);
    const id = answer.id as number;
    if (!this.#pending.has(id)) return;
    try {
      const line = this.#parts.add(id, answer);
      if (line === undefined) return;
      const whole = valueOf(line);
      if (isObject(whole) && whole.id === id) return void this.#settle(whole);
      throw new SbxError("mcp.failed", "the MCP aggregator sent an answer in parts that cannot be read");
    } catch (error) {
      this.#pending.fail(id, error as Error);
    }
  }

  async #read(source: PipeSource): Promise<void> {
    try {
      for await (const line of readLines(source)) {
        const answer = "text" in line ? valueOf(line.text) : undefined;
        if (isObject(answer)) this.#receive(answer);
        else this.#log("skipped a malformed line from the MCP aggregator");
      }
    } catch {
      // broken pipe
    }
  }
}

/** A pipe with `read`. One buffer is passed back and forth; a default reader allocates one for every piece. */
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

/**
 * Failure of every request while the aggregator is down (docs/design/contracts/08-mcp.md §8, "Aggregator
 * subprocess lifecycle").
 */
export function channelClosed(): SbxError {
  return new SbxError("mcp.channel_closed", "the MCP aggregator is not running: its channel is closed", {
    hint: "it restarts automatically; try again",
  });
}

function checkLine(line: string, label: string): string {
  if (fitsLine(line)) return line;
  throw new SbxError(
    "mcp.too_large",
    `${label} exceeds ${LINE_BYTES_MAX} bytes, the line limit of the aggregator protocol`,
  );
}
