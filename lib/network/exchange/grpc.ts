/**
 * gRPC and gRPC-Web: the call that a request makes, the messages of both sides, and
 * refusals that its clients read.
 */
import { joinBytes } from "../../base/bytes/mod.ts";
import type { HttpGrpc, HttpGrpcResult } from "../../event/mod.ts";
import type { BodySource } from "../message/body.ts";
import { decodeLatin1, NO_BYTES } from "../message/bytes.ts";
import { encodingOf } from "../message/encoding.ts";
import { splitTarget } from "../message/head.ts";
import { type Header, headerValue } from "../message/header.ts";
import type { MessageFilter } from "../interface/mod.ts";
import { GRPC_TRAILERS_MAX } from "../limit.ts";
import type { CapturedHead, IncomingRequest } from "./request.ts";

/** Content types of gRPC; servers read them in any case, and what follows a known beginning as a codec. */
const TYPE = /^application\/grpc(-web(-text)?)?(?![a-z0-9_-])/i;
/** Service and method are the last two segments: gRPC-Web may be served below a prefix. */
const PATH = /\/([^/]+)\/([^/]+)$/;
/** `ms` of the units of `grpc-timeout`. */
const UNITS: Readonly<Record<string, number>> = { H: 3_600_000, M: 60_000, S: 1000, m: 1, u: 1e-3, n: 1e-6 };
/** Length of the prefix of a message: a flag, and its length. */
export const PREFIX = 5;
/** Flag of a compressed message. */
export const COMPRESSED = 1;
/** Flag of the trailers of gRPC-Web, which are the last message of the body. */
const TRAILERS = 0x80;

/** The call of a request; `undefined` for one that is no gRPC. */
export function grpcOf({ method, target, headers }: CapturedHead): HttpGrpc | undefined {
  const types = method === "POST" ? typesOf(headers) : [];
  if (types.length === 0) return undefined;
  const [[, web]] = types;
  const [, service, name] = PATH.exec(splitTarget(target).path) ?? [];
  if (service === undefined) return undefined;
  const timeout_ms = timeoutOf(headers);
  return {
    method: name,
    service,
    ...(timeout_ms !== undefined && { timeout_ms }),
    ...(web !== undefined && { web: true }),
  };
}

/** True for the content type of gRPC or gRPC-Web. */
export function isGrpc(headers: readonly Header[]): boolean {
  return typesOf(headers).length > 0;
}

/**
 * True for a call whose client may wait for an answer within its body, which is decided on by its first
 * message: gRPC needs HTTP/2 for that, and no declared length.
 */
export function mayStream({ http2, body }: IncomingRequest, head: CapturedHead): boolean {
  const types = head.headers.filter(([name]) => name === "content-type");
  const call = types.length === 1 && encodingOf(head.headers) === undefined ? grpcOf(head) : undefined;
  return http2 === true && body.length === undefined && call !== undefined && call.web !== true;
}

/**
 * Content types of gRPC, of which a request may have several fields: a server takes the one that it knows.
 */
function typesOf(headers: readonly Header[]): RegExpExecArray[] {
  const types: RegExpExecArray[] = [];
  for (const [name, value] of headers) {
    const type = name === "content-type" ? TYPE.exec(value.trim()) : null;
    if (type) types.push(type);
  }
  return types;
}

/** Deadline of a call, in `ms` from its beginning. */
export function timeoutOf(headers: readonly Header[]): number | undefined {
  const [, count, unit] = /^([0-9]{1,8})([HMSmun])$/.exec(headerValue(headers, "grpc-timeout") ?? "") ?? [];
  return count === undefined ? undefined : Math.ceil(Number(count) * UNITS[unit]);
}

/** A message with its prefix. */
export interface Frame {
  flag: number;
  /** without the prefix */
  bytes: Uint8Array;
  /** where the next one begins */
  end: number;
}

/** The message at a place; `undefined` where it is not whole. */
export function frameAt(bytes: Uint8Array, at: number): Frame | undefined {
  if (bytes.length - at < PREFIX) return undefined;
  const end = at + PREFIX + new DataView(bytes.buffer, bytes.byteOffset + at).getUint32(1);
  return end > bytes.length ? undefined : { flag: bytes[at], bytes: bytes.subarray(at + PREFIX, end), end };
}

/** True once the first message of a body is whole. */
export function hasMessage(bytes: Uint8Array): boolean {
  return frameAt(bytes, 0) !== undefined;
}

/** Reads the messages of one direction as they pass. */
export class GrpcReader {
  messages = 0;
  /** without prefixes */
  bytes = 0;
  /** trailers of gRPC-Web */
  trailers: readonly Header[] = [];
  /** a message was compressed: it cannot be searched */
  isCompressed = false;
  #flag = 0;
  #prefix = 0;
  #left = 0;
  #text: Uint8Array[] = [];
  #textSize = 0;

  /** @returns where messages end in the piece */
  read(piece: Uint8Array): number[] {
    const ends: number[] = [];
    for (let at = 0; at < piece.length;) {
      if (this.#prefix < PREFIX) {
        if (this.#prefix === 0) {
          this.#flag = piece[at];
          this.#left = 0;
          if ((this.#flag | TRAILERS) === (COMPRESSED | TRAILERS)) this.isCompressed = true;
        } else this.#left = this.#left * 256 + piece[at];
        at++;
        if (++this.#prefix < PREFIX) continue;
      }
      const count = Math.min(this.#left, piece.length - at);
      this.#take(piece.subarray(at, at += count));
      this.#left -= count;
      if (this.#left > 0) continue;
      this.#end();
      ends.push(at);
    }
    return ends;
  }

  #take(bytes: Uint8Array): void {
    if (!(this.#flag & TRAILERS)) this.bytes += bytes.length;
    else if (this.#textSize + bytes.length <= GRPC_TRAILERS_MAX) {
      this.#text.push(bytes.slice());
      this.#textSize += bytes.length;
    }
  }

  #end(): void {
    this.#prefix = 0;
    if (!(this.#flag & TRAILERS)) {
      this.messages++;
      return;
    }
    this.trailers = decodeLatin1(joinBytes(this.#text)).split("\r\n").flatMap((line): Header[] => {
      const colon = line.indexOf(":");
      return colon > 0 ? [[line.slice(0, colon).toLowerCase(), line.slice(colon + 1).trim()]] : [];
    });
    this.#text = [];
    this.#textSize = 0;
  }
}

/** True for messages of which one is compressed: their server undoes it, and rules cannot read it. */
export function isCompressed(bytes: Uint8Array): boolean {
  const reader = new GrpcReader();
  reader.read(bytes);
  return reader.isCompressed;
}

/** The messages of a call, as far as they have passed. */
export class GrpcCounts {
  readonly requests = new GrpcReader();
  readonly responses = new GrpcReader();

  /** The answer's part of the event. @param fields of its head and of its trailers */
  result(fields: readonly Header[]): HttpGrpcResult {
    const status = /^[0-9]{1,9}$/.exec(
      headerValue([...fields, ...this.responses.trailers], "grpc-status") ?? "",
    );
    return {
      request_bytes: this.requests.bytes,
      requests: this.requests.messages,
      response_bytes: this.responses.bytes,
      responses: this.responses.messages,
      ...(status && { status: Number(status[0]) }),
    };
  }
}

/**
 * A body of messages: each passes as a whole, so that neither side waits for
 * bytes of a message that has ended.
 */
export class GrpcBody implements BodySource {
  readonly #body: BodySource;
  readonly #reader: GrpcReader;
  readonly #filter: () => MessageFilter | undefined;
  /** the bytes so far end within a message */
  #isWithin = false;

  /**
   * @param filter changes the messages and keeps their lengths; asked for with each piece, so that an open
   * stream is searched for a secret that becomes known
   */
  constructor(
    body: BodySource,
    reader: GrpcReader,
    filter: () => MessageFilter | undefined = () => undefined,
  ) {
    this.#body = body;
    this.#reader = reader;
    this.#filter = filter;
  }

  get trailers(): readonly Header[] {
    return this.#body.trailers;
  }

  get done(): boolean {
    return this.#body.done && !this.#isWithin;
  }

  get ready(): boolean {
    return this.#body.ready;
  }

  async read(): Promise<Uint8Array | null> {
    while (true) {
      const piece = await this.#body.read();
      if (piece === null) return this.#endMessage();
      const ends = this.#reader.read(piece);
      this.#isWithin = ends.at(-1) !== piece.length;
      const filter = this.#filter();
      if (!filter) return piece;
      const passed = filterMessages(filter, piece, ends);
      if (passed.length > 0) return passed;
    }
  }

  /** Ends a message that was cut off. @returns its bytes that were held back */
  #endMessage(): Uint8Array | null {
    if (!this.#isWithin) return null;
    this.#isWithin = false;
    const rest = this.#filter()?.push(NO_BYTES, true) ?? NO_BYTES;
    return rest.length > 0 ? rest : null;
  }
}

function filterMessages(filter: MessageFilter, piece: Uint8Array, ends: readonly number[]): Uint8Array {
  const passed: Uint8Array[] = [];
  let from = 0;
  for (const end of ends) {
    passed.push(filter.push(piece.subarray(from, end), true));
    from = end;
  }
  if (from < piece.length) passed.push(filter.push(piece.subarray(from), false));
  return passed.length === 0 ? NO_BYTES : joinBytes(passed);
}

// Refusals: a status of gRPC, without a message (Trailers-Only).

/** Statuses of gRPC, by HTTP status. */
const STATUSES: Readonly<Record<number, number>> = { 400: 3, 403: 7, 404: 12, 409: 10, 429: 8 };
const UNAVAILABLE = 14;
const UNKNOWN = 2;

/** Fields of a response that refuses a call. @param type content type of the request */
export function grpcRefusal(status: number, message: string, type: string): Header[] {
  const code = STATUSES[status] ?? (status >= 502 ? UNAVAILABLE : UNKNOWN);
  return [["content-type", type], ["grpc-status", `${code}`], ["grpc-message", encodeMessage(message)]];
}

/** Percent-encodes a message, as gRPC over HTTP/2 requires. */
function encodeMessage(message: string): string {
  return Array.from(
    new TextEncoder().encode(message),
    (byte) =>
      byte >= 0x20 && byte <= 0x7e && byte !== 0x25
        ? String.fromCharCode(byte)
        : `%${byte.toString(16).toUpperCase().padStart(2, "0")}`,
  ).join("");
}
