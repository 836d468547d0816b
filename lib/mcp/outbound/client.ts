/**
 * The aggregator's end of the private wire to its parent, which makes its HTTP requests and passes messages
 * of MCP servers on. Requests that a server sends to its client are called questions here, to distinguish
 * them from HTTP requests.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import type { EntryKind, Progress, ServerNotice, ServerRequest } from "../schema.ts";
import {
  type Frame,
  FrameKind,
  FrameWire,
  LIST_BITS,
  type RequestHead,
  type ResponseHead,
  WINDOW,
} from "./frame.ts";
import type { BodyWatch } from "./body_watch.ts";

/** `fetch` for one server; `watch` inspects the bytes of the response. */
export type ServerFetch = (url: string | URL, init?: RequestInit, watch?: BodyWatch) => Promise<Response>;

/** The aggregator's way to the network and to its parent. */
export interface Outbound {
  /** `fetch` limited to one of the defined servers */
  fetchFor(server: string): ServerFetch;
  /** reports progress of a request to the parent */
  progress(id: number, progress: Progress): void;
  /** reports changed lists to the parent */
  changed(kinds: Iterable<EntryKind>): void;
  /** reports a server's unrequested messages */
  notice(notice: ServerNotice): void;
  /** passes a request of a server to the parent. @throws Error the parent refuses it, or is gone */
  ask(request: ServerRequest, signal: AbortSignal): Promise<Record<string, unknown>>;
  /** called with the id of a request that the parent cancelled */
  onAbort?: (id: number) => void;
}

/** HTTP over the private wire; opens no other connection. */
export class OutboundClient implements Outbound {
  readonly #wire: FrameWire;
  readonly #requests = new Map<number, WireRequest>();
  readonly #decoder = new TextDecoder();
  #lastId = 0;
  /** questions without an answer yet, by id */
  readonly #questions = new Map<number, (answer: QuestionAnswer) => void>();
  #lastQuestionId = 0;
  onAbort?: (id: number) => void;
  /** settles when the other end has closed */
  readonly closed: Promise<void>;

  constructor(conn: Deno.Conn) {
    this.#wire = new FrameWire(conn);
    this.closed = this.#receive();
  }

  fetchFor(server: string): ServerFetch {
    return (url, init, watch) => this.#fetch(server, String(url), init ?? {}, watch);
  }

  progress(id: number, progress: Progress): void {
    this.#wire.send(FrameKind.Progress, id, JSON.stringify(progress));
  }

  changed(kinds: Iterable<EntryKind>): void {
    let bits = 0;
    for (const kind of kinds) bits |= LIST_BITS[kind];
    this.#wire.send(FrameKind.Changed, bits);
  }

  notice(notice: ServerNotice): void {
    this.#wire.send(FrameKind.Notice, 0, JSON.stringify(notice));
  }

  ask(request: ServerRequest, signal: AbortSignal): Promise<Record<string, unknown>> {
    const id = this.#lastQuestionId = (this.#lastQuestionId + 1) >>> 0;
    return new Promise((resolve, reject) => {
      const onAbort = () => {
        this.#wire.send(FrameKind.Withdraw, id);
        settle({ error: "the server withdrew the request" });
      };
      const settle = ({ result, error }: QuestionAnswer) => {
        this.#questions.delete(id);
        signal.removeEventListener("abort", onAbort);
        if (result) resolve(result);
        else reject(new Error(error ?? "the request was refused"));
      };
      this.#questions.set(id, settle);
      signal.addEventListener("abort", onAbort, { once: true });
      this.#wire.send(FrameKind.Request, id, JSON.stringify(request));
    });
  }

  async #fetch(server: string, url: string, init: RequestInit, watch?: BodyWatch): Promise<Response> {
    const { method = "GET", headers, body, signal } = init;
    signal?.throwIfAborted();
    const id = this.#lastId = (this.#lastId + 1) >>> 0;
    const request = new WireRequest(id, this.#wire, () => this.#requests.delete(id), signal, watch);
    this.#requests.set(id, request);
    const all = headers instanceof Headers ? headers : new Headers(headers);
    const head: RequestHead = { server, method, url, headers: Object.fromEntries(all) };
    this.#wire.send(FrameKind.Open, id, `${JSON.stringify(head)}\n${typeof body === "string" ? body : ""}`);
    return await request.response;
  }

  async #receive(): Promise<void> {
    await this.#wire.receive((frame) => {
      const { kind, id } = frame;
      if (kind === FrameKind.Answer) {
        this.#questions.get(id)?.(JSON.parse(this.#decoder.decode(frame.payload)));
      } else if (kind === FrameKind.Abort) this.onAbort?.(id);
      else if (kind === FrameKind.Sync) this.#wire.send(FrameKind.Sync, id);
      else this.#requests.get(id)?.receive(frame, this.#decoder);
      return true;
    });
    for (const settle of [...this.#questions.values()]) settle({ error: "the host closed the connection" });
    for (const request of [...this.#requests.values()]) request.fail("the host closed the connection");
  }
}

/** The parent's answer to a question: a result or an error. */
interface QuestionAnswer {
  result?: Record<string, unknown>;
  error?: string;
}

const JSON_TYPE = /^application\/json\b/i;

/**
 * One HTTP request over the wire, and its response. JSON is collected to its end; any other body is streamed,
 * and the parent sends no more than {@linkcode WINDOW} bytes ahead of its reader.
 */
class WireRequest {
  readonly response: Promise<Response>;
  readonly #id: number;
  readonly #wire: FrameWire;
  readonly #forget: () => void;
  readonly #head = Promise.withResolvers<Response>();
  readonly #signal?: AbortSignal | null;
  readonly #watch?: BodyWatch;
  readonly #onAbort = () => this.#cancel(this.#signal?.reason);
  /** received, and not read yet */
  #chunks: Uint8Array<ArrayBuffer>[] = [];
  /** head of a response that is collected to its end */
  #bufferedHead?: ResponseHead;
  #isOver = false;
  #failure?: Error;
  /** bytes read since credit was last granted */
  #consumed = 0;
  #wakeReader?: () => void;

  constructor(
    id: number,
    wire: FrameWire,
    forget: () => void,
    signal?: AbortSignal | null,
    watch?: BodyWatch,
  ) {
    this.#id = id;
    this.#wire = wire;
    this.#forget = forget;
    this.#signal = signal;
    this.#watch = watch;
    this.response = this.#head.promise;
    signal?.addEventListener("abort", this.#onAbort, { once: true });
  }

  receive(frame: Frame, decoder: TextDecoder): void {
    try {
      this.#receive(frame, decoder);
    } catch {
      // Invalid status or header.
      this.fail("the response is not valid HTTP");
    }
  }

  #receive({ kind, payload }: Frame, decoder: TextDecoder): void {
    if (kind === FrameKind.Head) this.#respond(JSON.parse(decoder.decode(payload)));
    else if (kind === FrameKind.Data) {
      this.#chunks.push(payload.slice());
      if (this.#bufferedHead) this.#collect(payload);
      else this.#wakeReader?.();
    } else if (kind === FrameKind.End) this.#end();
    else if (kind === FrameKind.Fail) this.fail(decoder.decode(payload));
  }

  fail(reason: string): void {
    this.#failure ??= new TypeError(reason);
    this.#head.reject(this.#failure);
    this.#end();
  }

  #end(): void {
    if (this.#bufferedHead && !this.#failure) {
      this.#head.resolve(new Response(joinBytes(this.#chunks), this.#bufferedHead));
      this.#watch?.end?.();
    }
    this.#isOver = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#forget();
    this.#wakeReader?.();
  }

  #cancel(reason: unknown): void {
    if (!this.#isOver) this.#wire.send(FrameKind.Cancel, this.#id);
    this.#failure ??= reason instanceof Error ? reason : new DOMException("cancelled", "AbortError");
    this.#head.reject(this.#failure);
    this.#end();
  }

  #respond({ status, headers }: ResponseHead): void {
    const hasBody = status !== 204 && status !== 205 && status !== 304;
    // JSON cannot be used before its end, so streaming would only cost time.
    if (hasBody && headers.some(([name, value]) => name === "content-type" && JSON_TYPE.test(value))) {
      this.#bufferedHead = { status, headers };
      return;
    }
    const body = hasBody
      ? new ReadableStream({ pull: (to) => this.#pull(to), cancel: (reason) => this.#cancel(reason) }, {
        highWaterMark: 0,
      })
      : null;
    this.#head.resolve(new Response(body, { status, headers }));
  }

  #collect(chunk: Uint8Array): void {
    try {
      this.#watch?.chunk(chunk);
      this.#grantCredit(chunk.length);
    } catch (problem) {
      this.#cancel(problem);
      this.#watch?.end?.(this.#failure);
    }
  }

  async #pull(to: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (this.#chunks.length === 0 && !this.#isOver) {
      await new Promise<void>((resolve) => this.#wakeReader = resolve);
      this.#wakeReader = undefined;
    }
    const chunk = this.#failure ? undefined : this.#chunks.shift();
    if (!chunk) return this.#finish(to);
    try {
      const pause = this.#watch?.chunk(chunk);
      if (pause) await pause;
    } catch (problem) {
      this.#cancel(problem);
      return this.#finish(to);
    }
    this.#grantCredit(chunk.length);
    to.enqueue(chunk);
  }

  #finish(to: ReadableStreamDefaultController<Uint8Array>): void {
    if (this.#failure) to.error(this.#failure);
    else to.close();
    this.#watch?.end?.(this.#failure);
  }

  /** Lets the parent send as many bytes as were read, once they are half of the window. */
  #grantCredit(bytes: number): void {
    this.#consumed += bytes;
    if (this.#consumed < WINDOW / 2 || this.#isOver) return;
    const credit = new Uint8Array(4);
    new DataView(credit.buffer).setUint32(0, this.#consumed);
    this.#consumed = 0;
    this.#wire.send(FrameKind.Credit, this.#id, credit);
  }
}
