import type { Connection } from "../connection.ts";
import { Gathered, NOTHING } from "./gathered.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import type { Framing } from "./framing.ts";
import { headEnd, parseTrailers } from "./head.ts";
import type { Header } from "./header.ts";
import { latin1 } from "./latin1.ts";
import { CHUNK_LINE_MAX, TRAILERS_MAX } from "../limit.ts";

/** The bytes of one body, piece by piece. */
export interface BodySource {
  /** The next piece, good until the next call; null at the end. @throws {ConnectionLost | MessageFault} */
  read(): Promise<Uint8Array | null>;
  /** its length, where that is known before it came */
  readonly length?: number;
  /** fields behind it; complete at its end */
  readonly trailers: readonly Header[];
  /** whether its end was read */
  readonly done: boolean;
  /** whether the next piece is here already */
  readonly ready: boolean;
  /** All of it, when that is here already; good until more is read from where it came. */
  here?(): Uint8Array | undefined;
}

/** A body that is in memory. */
export class WholeBody implements BodySource {
  readonly trailers: readonly Header[];
  readonly length: number;
  done: boolean;

  constructor(readonly bytes: Uint8Array, trailers: readonly Header[] = []) {
    this.length = bytes.length;
    this.done = bytes.length === 0;
    this.trailers = trailers;
  }

  get ready(): boolean {
    return !this.done;
  }

  read(): Promise<Uint8Array | null> {
    if (this.done) return Promise.resolve(null);
    this.done = true;
    return Promise.resolve(this.bytes);
  }
}

export const NO_BODY: BodySource = new WholeBody(NOTHING);

const LF = 10;
const CR = 13;
const CHUNK_LINE = /^([0-9A-Fa-f]{1,12})[ \t]*(;[\t\x20-\x7e\x80-\xff]*)?$/;

/** The body behind a head on a connection. Its deadline is set anew with each wait. */
export class WireBody implements BodySource {
  trailers: readonly Header[] = [];
  done: boolean;
  readonly length?: number;
  readonly #connection: Connection;
  readonly #framing: Framing;
  readonly #idleMs: number;
  /** of the body, or of the chunk that is being read */
  #left: number;
  /** a chunk was read, and the line break behind it was not */
  #behind = false;

  constructor(connection: Connection, framing: Framing, idleMs: number) {
    this.#connection = connection;
    this.#framing = framing;
    this.#idleMs = idleMs;
    this.#left = typeof framing === "number" ? framing : 0;
    this.done = framing === 0;
    if (typeof framing === "number") this.length = framing;
  }

  get ready(): boolean {
    return this.#connection.count > 0;
  }

  async read(): Promise<Uint8Array | null> {
    if (this.done) return null;
    if (this.#framing === "close") return await this.#rest();
    if (this.#framing === "chunked" && this.#left === 0 && !await this.#chunk()) return null;
    if (this.#connection.count === 0) await this.#more();
    const piece = this.#take(this.#left);
    this.#left -= piece.length;
    if (this.#left === 0) {
      if (this.#framing === "chunked") this.#behind = true;
      else this.#finish();
    }
    return piece;
  }

  here(): Uint8Array | undefined {
    const all = this.#framing === this.#left && this.#connection.count >= this.#left && this.#left > 0;
    if (!all) return undefined;
    const bytes = this.#take(this.#left);
    this.#left = 0;
    this.#finish();
    return bytes;
  }

  async #rest(): Promise<Uint8Array | null> {
    if (this.#connection.count === 0) {
      this.#connection.deadline.set(this.#idleMs);
      if (!await this.#connection.fill()) {
        this.#finish();
        return null;
      }
    }
    return this.#take(Infinity);
  }

  #take(most: number): Uint8Array {
    const { waiting } = this.#connection;
    const piece = waiting.length > most ? waiting.subarray(0, most) : waiting;
    this.#connection.skip(piece.length);
    return piece;
  }

  /** Begins the next chunk; false behind the last one and its trailers. */
  async #chunk(): Promise<boolean> {
    if (this.#behind) {
      while (this.#connection.count < 2) await this.#more();
      const { waiting } = this.#connection;
      if (waiting[0] !== CR || waiting[1] !== LF) throw new MessageFault("a chunk is longer than it said");
      this.#connection.skip(2);
      this.#behind = false;
    }
    const [, size] = CHUNK_LINE.exec(await this.#line()) ?? [];
    if (size === undefined) throw new MessageFault("the line before a chunk says no length");
    this.#left = parseInt(size, 16);
    if (this.#left > 0) return true;
    await this.#trail();
    this.#finish();
    return false;
  }

  async #line(): Promise<string> {
    while (true) {
      const { waiting } = this.#connection;
      const end = waiting.indexOf(LF);
      if (end > CHUNK_LINE_MAX || end < 0 && waiting.length > CHUNK_LINE_MAX) {
        throw new MessageFault("the line before a chunk is too long");
      }
      if (end >= 0) {
        if (waiting[end - 1] !== CR) {
          throw new MessageFault("the line before a chunk ends without a carriage return");
        }
        this.#connection.skip(end + 1);
        return latin1(waiting.subarray(0, end - 1));
      }
      await this.#more();
    }
  }

  async #trail(): Promise<void> {
    while (true) {
      const { waiting } = this.#connection;
      if (waiting[0] === CR && waiting[1] === LF) return this.#connection.skip(2);
      const end = headEnd(waiting);
      if (end > TRAILERS_MAX || end < 0 && waiting.length > TRAILERS_MAX) {
        throw new MessageFault("its trailers are too long");
      }
      if (end >= 0) {
        this.trailers = parseTrailers(waiting.subarray(0, end));
        return this.#connection.skip(end);
      }
      await this.#more();
    }
  }

  async #more(): Promise<void> {
    this.#connection.deadline.set(this.#idleMs);
    if (!await this.#connection.fill()) throw new ConnectionLost("closed the connection within a body");
  }

  #finish(): void {
    this.done = true;
    this.#connection.deadline.off();
  }
}

/** A body of which the beginning was read already. */
export class RestOfBody implements BodySource {
  #first?: Uint8Array;

  constructor(first: Uint8Array, readonly rest: BodySource) {
    if (first.length > 0) this.#first = first;
  }

  get length(): number | undefined {
    return this.rest.length;
  }

  get trailers(): readonly Header[] {
    return this.rest.trailers;
  }

  get done(): boolean {
    return this.#first === undefined && this.rest.done;
  }

  get ready(): boolean {
    return this.#first !== undefined || this.rest.ready;
  }

  read(): Promise<Uint8Array | null> {
    const first = this.#first;
    if (first === undefined) return this.rest.read();
    this.#first = undefined;
    return Promise.resolve(first);
  }
}

/** Reads all of a body. @returns a view, good until more is read from where it came from */
export async function readWhole(body: BodySource, length: number): Promise<Uint8Array> {
  const first = await body.read();
  if (first !== null && first.length === length) return first;
  const all = new Gathered();
  for (let piece = first; piece !== null; piece = await body.read()) all.add(piece);
  return all.bytes;
}

/** Reads a body's beginning: at least `most` bytes of it, or all. @returns a copy */
export async function readBeginning(body: BodySource, most: number): Promise<Uint8Array> {
  const all = new Gathered();
  while (all.count < most && !body.done) {
    const piece = await body.read();
    if (piece === null) break;
    all.add(piece);
  }
  return all.bytes;
}
