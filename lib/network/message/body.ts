/** Bodies of HTTP/1.1 messages: their framing, and how they are read and written. */
import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost, MessageFault } from "../fault.ts";
import { CHUNK_LINE_MAX, TRAILERS_MAX } from "../limit.ts";
import { headEnd, parseTrailers, type RequestHead, type ResponseHead } from "./head.ts";
import type { Header } from "./header.ts";
import { ByteBuffer, decodeLatin1, NO_BYTES } from "./bytes.ts";

/** Bytes of one body, piece by piece. */
export interface BodySource {
  /** Next piece, valid until the next call; null at the end. @throws {ConnectionLost | MessageFault} */
  read(): Promise<Uint8Array | null>;
  /** declared length in `bytes`; absent when it is unknown until the end */
  readonly length?: number;
  /** trailer fields; complete at the end */
  readonly trailers: readonly Header[];
  /** the end was read */
  readonly done: boolean;
  /** the next piece has been received */
  readonly ready: boolean;
  /** its end is the end of a TLS connection that ended without close_notify */
  readonly noCloseNotify?: boolean;
  /** Takes the whole body if it has been received; valid until the next read of its connection. */
  takeWhole?(): Uint8Array | undefined;
}

/** Body in memory. */
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

export const NO_BODY: BodySource = new WholeBody(NO_BYTES);

const LF = 10;
const CR = 13;
const CHUNK_LINE = /^([0-9A-Fa-f]{1,12})[ \t]*(;[\t\x20-\x7e\x80-\xff]*)?$/;

/** Body that follows a head on a connection. Each wait sets the deadline again. */
export class WireBody implements BodySource {
  trailers: readonly Header[] = [];
  done: boolean;
  readonly length?: number;
  readonly #connection: BufferedConnection;
  readonly #framing: BodyFraming;
  readonly #idleMs: number;
  /** `bytes` that remain of the body, or of the current chunk */
  #remaining: number;
  /** the line break after the last chunk is still unread */
  #atChunkEnd = false;

  constructor(connection: BufferedConnection, framing: BodyFraming, idleMs: number) {
    this.#connection = connection;
    this.#framing = framing;
    this.#idleMs = idleMs;
    this.#remaining = typeof framing === "number" ? framing : 0;
    this.done = framing === 0;
    if (typeof framing === "number") this.length = framing;
  }

  get ready(): boolean {
    return this.#connection.count > 0;
  }

  get noCloseNotify(): boolean {
    return this.#framing === "close" && this.#connection.noCloseNotify;
  }

  async read(): Promise<Uint8Array | null> {
    if (this.done) return null;
    if (this.#framing === "close") return await this.#readUntilClose();
    if (this.#framing === "chunked" && this.#remaining === 0 && !await this.#beginChunk()) return null;
    if (this.#connection.count === 0) await this.#fill();
    const piece = this.#take(this.#remaining);
    this.#remaining -= piece.length;
    if (this.#remaining === 0) {
      if (this.#framing === "chunked") this.#atChunkEnd = true;
      else this.#finish();
    }
    return piece;
  }

  takeWhole(): Uint8Array | undefined {
    const isWhole = this.#framing === this.#remaining && this.#connection.count >= this.#remaining &&
      this.#remaining > 0;
    if (!isWhole) return undefined;
    const bytes = this.#take(this.#remaining);
    this.#remaining = 0;
    this.#finish();
    return bytes;
  }

  async #readUntilClose(): Promise<Uint8Array | null> {
    if (this.#connection.count === 0) {
      this.#connection.deadline.set(this.#idleMs);
      if (!await this.#connection.fill()) {
        this.#finish();
        return null;
      }
      this.#connection.deadline.off();
    }
    return this.#take(Infinity);
  }

  #take(most: number): Uint8Array {
    const { unread } = this.#connection;
    const piece = unread.length > most ? unread.subarray(0, most) : unread;
    this.#connection.skip(piece.length);
    return piece;
  }

  /**
   * Reads the next chunk size line; after the last chunk, the trailers.
   * @returns false at the end of the body
   */
  async #beginChunk(): Promise<boolean> {
    if (this.#atChunkEnd) {
      while (this.#connection.count < 2) await this.#fill();
      const { unread } = this.#connection;
      if (unread[0] !== CR || unread[1] !== LF) {
        throw new MessageFault("a chunk is longer than its declared size");
      }
      this.#connection.skip(2);
      this.#atChunkEnd = false;
    }
    const [, size] = CHUNK_LINE.exec(await this.#readChunkLine()) ?? [];
    if (size === undefined) throw new MessageFault("invalid chunk size");
    this.#remaining = parseInt(size, 16);
    if (this.#remaining > 0) return true;
    await this.#readTrailers();
    this.#finish();
    return false;
  }

  async #readChunkLine(): Promise<string> {
    while (true) {
      const { unread } = this.#connection;
      const end = unread.indexOf(LF);
      if (end > CHUNK_LINE_MAX || end < 0 && unread.length > CHUNK_LINE_MAX) {
        throw new MessageFault("the chunk size line is too long");
      }
      if (end >= 0) {
        if (unread[end - 1] !== CR) {
          throw new MessageFault("the chunk size line ends in a bare LF");
        }
        this.#connection.skip(end + 1);
        return decodeLatin1(unread.subarray(0, end - 1));
      }
      await this.#fill();
    }
  }

  async #readTrailers(): Promise<void> {
    while (true) {
      const { unread } = this.#connection;
      if (unread[0] === CR && unread[1] === LF) return this.#connection.skip(2);
      const end = headEnd(unread);
      if (end > TRAILERS_MAX || end < 0 && unread.length > TRAILERS_MAX) {
        throw new MessageFault("the trailers are too long");
      }
      if (end >= 0) {
        this.trailers = parseTrailers(unread.subarray(0, end));
        return this.#connection.skip(end);
      }
      await this.#fill();
    }
  }

  async #fill(): Promise<void> {
    this.#connection.deadline.set(this.#idleMs);
    if (!await this.#connection.fill()) throw new ConnectionLost("closed the connection within a body");
    // No read of the client is pending: its request may wait for a person.
    this.#connection.deadline.off();
  }

  #finish(): void {
    this.done = true;
    this.#connection.deadline.off();
  }
}

/** Body whose beginning has been read already. */
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

/** Body that a client announced and still holds back: the upstream gets its head first. */
export class AnnouncedBody implements BodySource {
  readonly length?: number;
  readonly #begin: () => Promise<BodySource>;
  #body?: BodySource;
  /** it was asked for */
  begun = false;

  /** @param begin asks the client for the body, once; the body must have the length that was announced */
  constructor(length: number | undefined, begin: () => Promise<BodySource>) {
    if (length !== undefined) this.length = length;
    this.#begin = begin;
  }

  get trailers(): readonly Header[] {
    return this.#body?.trailers ?? [];
  }

  get done(): boolean {
    return this.#body?.done ?? false;
  }

  get ready(): boolean {
    return this.#body?.ready ?? false;
  }

  async read(): Promise<Uint8Array | null> {
    this.begun = true;
    this.#body ??= await this.#begin();
    return await this.#body.read();
  }
}

/** Reads a whole body. @returns a view, valid until the next read of its connection */
export async function readWhole(body: BodySource, length: number): Promise<Uint8Array> {
  const first = await body.read();
  if (first !== null && first.length === length) return first;
  const all = new ByteBuffer();
  for (let piece = first; piece !== null; piece = await body.read()) all.add(piece);
  return all.bytes;
}

// Body framing of HTTP/1.1 messages (RFC 9112 §6); ambiguous framing is refused.

/** A length in `bytes`, `chunked`, or until the connection closes. */
export type BodyFraming = number | "chunked" | "close";

/** @throws {MessageFault} for two framings, two lengths, and codings other than `chunked` */
export function requestFraming({ headers, old }: RequestHead): BodyFraming {
  const { length, isChunked, lengths } = readFramingFields(headers);
  if (lengths > 1) throw new MessageFault("more than one content-length header");
  if (!isChunked) return length ?? 0;
  if (length !== undefined) throw new MessageFault("both content-length and transfer-encoding");
  if (old) throw new MessageFault("transfer-encoding in HTTP/1.0");
  return "chunked";
}

/** @throws {MessageFault} for two framings, lengths that differ, and codings other than `chunked` */
export function responseFraming({ status, headers, old }: ResponseHead, method: string): BodyFraming {
  const { length, isChunked } = readFramingFields(headers);
  if (isChunked && length !== undefined) throw new MessageFault("both content-length and transfer-encoding");
  if (method === "HEAD" || status < 200 || status === 204 || status === 304) return 0;
  if (isChunked && old) throw new MessageFault("transfer-encoding in HTTP/1.0");
  return isChunked ? "chunked" : length ?? "close";
}

function readFramingFields(headers: readonly Header[]) {
  let length: number | undefined;
  let lengths = 0;
  let isChunked = false;
  for (const [name, value] of headers) {
    if (name === "content-length") {
      const parsed = /^[0-9]{1,15}$/.test(value) ? Number(value) : NaN;
      if (Number.isNaN(parsed)) throw new MessageFault("content-length is not a number");
      if (length !== undefined && length !== parsed) {
        throw new MessageFault("conflicting content-length values");
      }
      length = parsed;
      lengths++;
    } else if (name === "transfer-encoding") {
      if (isChunked || value.toLowerCase() !== "chunked") {
        throw new MessageFault("a transfer coding other than chunked");
      }
      isChunked = true;
    }
  }
  return { length, lengths, isChunked };
}

/** True when the connection stays open after a message. */
export function keepsAlive({ headers, old }: { headers: readonly Header[]; old: boolean }): boolean {
  let alive = !old;
  for (const [name, value] of headers) {
    if (name !== "connection") continue;
    const options = value.toLowerCase();
    if (/(^|[ ,\t])close($|[ ,\t])/.test(options)) return false;
    if (old && options.includes("keep-alive")) alive = true;
  }
  return alive;
}

// Writes heads and bodies of HTTP/1.1 messages in few writes.

/**
 * Byte text of a head: first line, fields, and the empty line.
 * @param more further fields, each with its line end
 */
export function formatHead(first: string, headers: readonly Header[], more = ""): string {
  let text = first + "\r\n";
  for (const [name, value] of headers) text += `${name}: ${value}\r\n`;
  return text + more + "\r\n";
}

/** Writes one message: its head with the first piece of its body, then the rest. */
export class BodyWriter {
  #head?: string;

  /**
   * @param head byte text that goes out with the first piece
   * @param isChunked true for a body in chunks
   * @param idleMs timeout of each write
   */
  constructor(
    readonly connection: BufferedConnection,
    head: string,
    readonly isChunked: boolean,
    readonly idleMs: number,
  ) {
    this.#head = head;
  }

  /** Writes the head, if it is not written yet. */
  flush(): Promise<void> {
    return this.#head === undefined ? Promise.resolve() : this.#send(undefined, "", "");
  }

  write(piece: Uint8Array): Promise<void> {
    if (piece.length === 0) return Promise.resolve();
    return this.isChunked
      ? this.#send(piece, `${piece.length.toString(16)}\r\n`, "\r\n")
      : this.#send(piece, "", "");
  }

  /** Ends the body. */
  end(trailers: readonly Header[] = []): Promise<void> {
    return this.isChunked ? this.#send(undefined, formatHead("0", trailers), "") : this.flush();
  }

  /** Writes a body to its end. */
  async writeAll(body: BodySource): Promise<void> {
    for (let piece = await body.read(); piece !== null; piece = await body.read()) await this.write(piece);
  }

  #send(piece: Uint8Array | undefined, before: string, after: string): Promise<void> {
    const start = this.#head === undefined ? before : this.#head + before;
    this.#head = undefined;
    this.connection.deadline.set(this.idleMs);
    if (piece && start === "" && after === "") return this.connection.write(piece);
    return this.connection.writeJoined(start, piece, after);
  }
}
