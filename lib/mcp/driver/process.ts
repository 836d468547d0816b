/** One aggregator process: its pipes and the requests that wait for an answer. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import type { AggregatorDefinition } from "../definition.ts";
import type { EntryKind, Progress, RequestAnswerer, ServerNotice } from "../schema.ts";
import { LINE_BYTES_MAX, PARTS_TOTAL_MAX, RESULT_BYTES_MAX } from "../limit.ts";
import { AnswerPart, byteLength, fitsLine, LineWriter, readLines, valueOf } from "../protocol.ts";
import {
  type CredentialResolver,
  OutboundServer,
  type ServerLogins,
  type StdioStarter,
} from "../outbound/mod.ts";
import { spawnAggregator } from "./spawn.ts";
import { foreignText } from "../name.ts";

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
   * @throws {SbxError} `mcp.failed` when it cannot be started; `mcp.too_large` when the
   * definitions do not fit on a line
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
    await this.request("shutdown", undefined, GOODBYE_MS).catch(ignore("it is killed below if it stays"));
    await this.#stdin.close().catch(ignore("the process has exited"));
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
    await this.#stdin.abort().catch(ignore("the process has exited"));
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

/**
 * A pipe with `read`. One buffer is passed back and forth; a default reader allocates one for every piece.
 */
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

// Requests that wait for an answer.

/** Options of one request. */
export interface CallOptions {
  /** cancels the request, at the server too */
  signal?: AbortSignal;
  /** receives progress reported by the server */
  progress?(progress: Progress): void;
}

interface PendingRequest {
  settle(answer: Record<string, unknown>): void;
  reject(error: unknown): void;
  progress?(progress: Progress): void;
}

/** Characters of an error from the aggregator. */
const ERROR_CHARS_MAX = 1000;

class PendingRequests {
  readonly #requests = new Map<number, PendingRequest>();
  #lastId = 0;

  /** The next request id; ids increase. */
  nextId(): number {
    return ++this.#lastId;
  }

  /**
   * Waits for the answer to a request.
   *
   * @param label name of the request in errors
   * @param onGivenUp called when the request times out or is aborted
   * @throws {SbxError} `mcp.timeout`, `mcp.failed`, `mcp.channel_closed`; or the signal's reason
   */
  wait(
    id: number,
    label: string,
    timeoutMs: number,
    { signal, progress }: CallOptions,
    onGivenUp: () => void,
  ): Promise<Record<string, unknown>> {
    return new Promise((resolve, reject) => {
      const giveUp = (error: unknown) => {
        if (!this.#requests.has(id)) return;
        end();
        onGivenUp();
        reject(error);
      };
      const onAbort = () => giveUp(signal!.reason);
      const timer = setTimeout(
        () => giveUp(new SbxError("mcp.timeout", `${label} was not answered within ${timeoutMs / 1000} s`)),
        timeoutMs,
      );
      const end = () => {
        clearTimeout(timer);
        signal?.removeEventListener("abort", onAbort);
        this.#requests.delete(id);
      };
      this.#requests.set(id, {
        settle: (answer) => {
          end();
          if (answer.error === undefined) resolve(answer);
          else reject(new SbxError("mcp.failed", `${label}: ${errorText(answer.error)}`));
        },
        reject: (error) => {
          end();
          reject(error);
        },
        progress,
      });
      signal?.addEventListener("abort", onAbort, { once: true });
    });
  }

  has(id: unknown): boolean {
    return this.#requests.has(id as number);
  }

  fail(id: number, error: Error): void {
    this.#requests.get(id)?.reject(error);
  }

  settle(id: unknown, answer: Record<string, unknown>): void {
    this.#requests.get(id as number)?.settle(answer);
  }

  /** Tests whether the caller of a request receives progress. */
  wantsProgress(id: unknown): boolean {
    return this.#requests.get(id as number)?.progress !== undefined;
  }

  progress(id: number, progress: Progress): void {
    this.#requests.get(id)?.progress?.(progress);
  }

  rejectAll(error: SbxError): void {
    for (const request of [...this.#requests.values()]) request.reject(error);
  }
}

/** Text of an error: a string, or the JSON-RPC error object of a serialization failure. */
function errorText(error: unknown): string {
  const text = typeof error === "string" ? error : (error as { message?: unknown } | null)?.message;
  return typeof text === "string" ? foreignText(text, ERROR_CHARS_MAX) : "failed without a reason";
}

/*
 * Answers that come in parts, since they are longer than a line (docs/design/contracts/08-mcp.md §8,
 * "Aggregator protocol").
 */

interface OpenAnswer {
  texts: string[];
  bytes: number;
}

/** Joins parts. Its buffer is bounded: the aggregator that sends them talks to untrusted servers. */
export class AnswerParts {
  readonly #open = new Map<number, OpenAnswer>();
  #bytes = 0;

  /**
   * Takes a part of an answer that is waited for.
   *
   * @returns the line of the answer once it is whole
   * @throws {SbxError} `mcp.failed`, `mcp.too_large`; nothing of the answer is held then
   */
  add(id: number, value: unknown): string | undefined {
    const answer = this.#open.get(id) ?? { texts: [], bytes: 0 };
    const { data: part } = AnswerPart.safeParse(value);
    if (part?.part !== answer.texts.length) {
      this.drop(id);
      throw new SbxError("mcp.failed", "the MCP aggregator sent an answer whose parts do not fit together");
    }
    const bytes = byteLength(part.text);
    if (answer.bytes + bytes > RESULT_BYTES_MAX || this.#bytes + bytes > PARTS_TOTAL_MAX) {
      this.drop(id);
      throw new SbxError(
        "mcp.too_large",
        `the result has more than ${RESULT_BYTES_MAX} bytes, or all results on their way more than ${PARTS_TOTAL_MAX}`,
        { hint: "ask the server for less, or for fewer results at once" },
      );
    }
    answer.texts.push(part.text);
    answer.bytes += bytes;
    this.#bytes += bytes;
    this.#open.set(id, answer);
    if (!part.last) return undefined;
    this.drop(id);
    return answer.texts.join("");
  }

  /** Forgets the parts of an answer that is not waited for any more. */
  drop(id: number): void {
    this.#bytes -= this.#open.get(id)?.bytes ?? 0;
    this.#open.delete(id);
  }
}
