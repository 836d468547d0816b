/** The aggregator's end of the private wire. */
import type { Kind, Progress } from "../entry.ts";
import type { BodyWatch } from "./watch.ts";
import { type Frame, FrameWire, type Head, Kind as FrameKind, LIST_BITS, WINDOW } from "./frame.ts";

/** `fetch` for one server; something may look at the bytes of the answer. */
export type ServerFetch = (url: string | URL, init?: RequestInit, watch?: BodyWatch) => Promise<Response>;

/** How the aggregator reaches the world. */
export interface Outbound {
  /** `fetch` that reaches one of the defined servers and nothing else */
  fetchFor(server: string): ServerFetch;
  /** tells the parent how far the request of this id is */
  progress(id: number, progress: Progress): void;
  /** tells the parent that these lists changed */
  changed(kinds: Iterable<Kind>): void;
  /** called with the id of a request that the parent cancelled */
  onAbort?: (id: number) => void;
}

/** HTTP over the private wire. It opens no connection but the one that it is given. */
export class OutboundClient implements Outbound {
  readonly #wire: FrameWire;
  readonly #exchanges = new Map<number, Exchange>();
  readonly #decoder = new TextDecoder();
  #lastId = 0;
  onAbort?: (id: number) => void;
  /** settles when the other end is gone */
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

  changed(kinds: Iterable<Kind>): void {
    let bits = 0;
    for (const kind of kinds) bits |= LIST_BITS[kind];
    this.#wire.send(FrameKind.Changed, bits);
  }

  async #fetch(server: string, url: string, init: RequestInit, watch?: BodyWatch): Promise<Response> {
    const { method = "GET", headers, body, signal } = init;
    signal?.throwIfAborted();
    const id = this.#lastId = (this.#lastId + 1) >>> 0;
    const exchange = new Exchange(id, this.#wire, () => this.#exchanges.delete(id), signal, watch);
    this.#exchanges.set(id, exchange);
    const all = headers instanceof Headers ? headers : new Headers(headers);
    const open = { server, method, url, headers: Object.fromEntries(all) };
    this.#wire.send(FrameKind.Open, id, `${JSON.stringify(open)}\n${typeof body === "string" ? body : ""}`);
    return await exchange.response;
  }

  async #receive(): Promise<void> {
    await this.#wire.receive((frame) => {
      const { kind, id } = frame;
      if (kind === FrameKind.Abort) this.onAbort?.(id);
      else if (kind === FrameKind.Sync) this.#wire.send(FrameKind.Sync, id);
      else this.#exchanges.get(id)?.take(frame, this.#decoder);
      return true;
    });
    for (const exchange of [...this.#exchanges.values()]) exchange.fail("the host closed the connection");
  }
}

const JSON_TYPE = /^application\/json\b/i;

/** One request and its answer. */
class Exchange {
  readonly response: Promise<Response>;
  readonly #id: number;
  readonly #wire: FrameWire;
  readonly #forget: () => void;
  readonly #head = Promise.withResolvers<Response>();
  readonly #signal?: AbortSignal | null;
  readonly #watch?: BodyWatch;
  readonly #onAbort = () => this.#cancel(this.#signal?.reason);
  #chunks: Uint8Array<ArrayBuffer>[] = [];
  #whole?: Head;
  #over = false;
  #failure?: Error;
  #taken = 0;
  #wanted?: () => void;

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

  take(frame: Frame, decoder: TextDecoder): void {
    try {
      this.#take(frame, decoder);
    } catch {
      // A status or header that no response can have.
      this.fail("its answer is not valid HTTP");
    }
  }

  #take({ kind, payload }: Frame, decoder: TextDecoder): void {
    if (kind === FrameKind.Head) this.#answer(JSON.parse(decoder.decode(payload)));
    else if (kind === FrameKind.Data) {
      this.#chunks.push(payload.slice());
      if (this.#whole) this.#collect(payload);
      else this.#wanted?.();
    } else if (kind === FrameKind.End) this.#end();
    else if (kind === FrameKind.Fail) this.fail(decoder.decode(payload));
  }

  fail(reason: string): void {
    this.#failure ??= new TypeError(reason);
    this.#head.reject(this.#failure);
    this.#end();
  }

  #end(): void {
    if (this.#whole && !this.#failure) {
      this.#head.resolve(new Response(joined(this.#chunks), this.#whole));
      this.#watch?.end?.();
    }
    this.#over = true;
    this.#signal?.removeEventListener("abort", this.#onAbort);
    this.#forget();
    this.#wanted?.();
  }

  #cancel(reason: unknown): void {
    if (!this.#over) this.#wire.send(FrameKind.Cancel, this.#id);
    this.#failure ??= reason instanceof Error ? reason : new DOMException("cancelled", "AbortError");
    this.#head.reject(this.#failure);
    this.#end();
  }

  #answer({ status, headers }: Head): void {
    const hasBody = status !== 204 && status !== 205 && status !== 304;
    // JSON is of no use before its end; a stream for it would only cost time.
    if (hasBody && headers.some(([name, value]) => name === "content-type" && JSON_TYPE.test(value))) {
      this.#whole = { status, headers };
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
      this.#granted(chunk.length);
    } catch (problem) {
      this.#cancel(problem);
      this.#watch?.end?.(this.#failure);
    }
  }

  async #pull(to: ReadableStreamDefaultController<Uint8Array>): Promise<void> {
    if (this.#chunks.length === 0 && !this.#over) {
      await new Promise<void>((resolve) => this.#wanted = resolve);
      this.#wanted = undefined;
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
    this.#granted(chunk.length);
    to.enqueue(chunk);
  }

  #finish(to: ReadableStreamDefaultController<Uint8Array>): void {
    if (this.#failure) to.error(this.#failure);
    else to.close();
    this.#watch?.end?.(this.#failure);
  }

  /** Bytes that are taken make room for others. */
  #granted(bytes: number): void {
    this.#taken += bytes;
    if (this.#taken < WINDOW / 2 || this.#over) return;
    const credit = new Uint8Array(4);
    new DataView(credit.buffer).setUint32(0, this.#taken);
    this.#taken = 0;
    this.#wire.send(FrameKind.Credit, this.#id, credit);
  }
}

function joined(chunks: Uint8Array<ArrayBuffer>[]): Uint8Array<ArrayBuffer> {
  if (chunks.length === 1) return chunks[0];
  const whole = new Uint8Array(chunks.reduce((size, { length }) => size + length, 0));
  let at = 0;
  for (const chunk of chunks) {
    whole.set(chunk, at);
    at += chunk.length;
  }
  return whole;
}
