/**
 * Frames of WebSockets (RFC 6455 §5.2), read strictly and written: bytes that two programs
 * could read differently are refused.
 */
import { ignore } from "../../base/error/mod.ts";
import { CONTROL_PAYLOAD_MAX, FRAME_WHOLE_MAX } from "../limit.ts";
import { ConnectionLost } from "../fault.ts";
import { decodeLatin1, NO_BYTES } from "../message/bytes.ts";
import type { BufferedConnection } from "../connection.ts";
import { type Deflate, Deflater, Inflater } from "./deflate.ts";
import { SocketFault } from "./fault.ts";

export const OPCODE = { continuation: 0, text: 1, binary: 2, close: 8, ping: 9, pong: 10 } as const;

/** Side that wrote a frame: only the guest, the client, masks. */
export type Side = "guest" | "upstream";

interface FrameHead {
  opcode: number;
  /** last frame of its message */
  final: boolean;
  /** begins a compressed message */
  compressed?: true;
  /** length of the payload in `bytes` */
  length: number;
  /** masking key; absent in frames of an upstream */
  mask?: Uint8Array;
  /** length of the head itself in `bytes` */
  size: number;
}

/** Bit of a frame that begins a compressed message (RFC 7692 §6). */
const RSV1 = 64;

/**
 * Parses the head of a frame at the beginning of `bytes`; `undefined` while it is incomplete.
 *
 * @param deflates the side may compress its messages
 * @throws {SocketFault}
 */
export function parseFrameHead(bytes: Uint8Array, side: Side, deflates = false): FrameHead | undefined {
  if (bytes.length < 2) return undefined;
  const [first, second] = bytes;
  const opcode = first & 15;
  const final = (first & 128) !== 0;
  const isMasked = (second & 128) !== 0;
  const field = second & 127;
  // No other extension is negotiated, so no other reserved bit has a meaning.
  const compressed = deflates && (opcode === OPCODE.text || opcode === OPCODE.binary) && (first & RSV1) !== 0;
  if ((first & (compressed ? 48 : 112)) !== 0) throw new SocketFault("reserved bits are set");
  if (opcode > OPCODE.pong || opcode > OPCODE.binary && opcode < OPCODE.close) {
    throw new SocketFault("an unknown opcode");
  }
  if (isControl(opcode) && !final) throw new SocketFault("a fragmented control frame");
  if (isControl(opcode) && field > CONTROL_PAYLOAD_MAX) {
    throw new SocketFault("a control frame over 125 bytes");
  }
  if (isMasked !== (side === "guest")) {
    throw new SocketFault(isMasked ? "a masked frame of a server" : "an unmasked frame of a client");
  }
  const lengthSize = field < 126 ? 0 : field === 126 ? 2 : 8;
  const size = 2 + lengthSize + (isMasked ? 4 : 0);
  if (bytes.length < size) return undefined;
  const length = lengthSize === 0 ? field : readLength(bytes, lengthSize);
  return {
    opcode,
    final,
    ...(compressed && { compressed }),
    length,
    size,
    ...(isMasked && { mask: bytes.slice(size - 4, size) }),
  };
}

function isControl(opcode: number): boolean {
  return opcode >= OPCODE.close;
}

/** Reads an extended length. @throws {SocketFault} it is not the shortest form, or no length at all */
function readLength(bytes: Uint8Array, size: 2 | 8): number {
  const view = new DataView(bytes.buffer, bytes.byteOffset + 2, size);
  const length = size === 2 ? view.getUint16(0) : Number(view.getBigUint64(0));
  if (length < (size === 2 ? 126 : 65536)) throw new SocketFault("a length that is not in its shortest form");
  if (length > Number.MAX_SAFE_INTEGER) throw new SocketFault("an impossible length");
  return length;
}

/** Applies a mask in place. @param offset of `bytes` in the payload */
function applyMask(bytes: Uint8Array, mask: Uint8Array, offset: number): void {
  for (let at = 0; at < bytes.length; at++) bytes[at] ^= mask[(offset + at) & 3];
}

/**
 * Head of a frame to write.
 * @param mask of a frame to an upstream
 * @param compressed begins a compressed message
 */
export function formatFrameHead(
  opcode: number,
  final: boolean,
  length: number,
  mask: Uint8Array | undefined,
  compressed = false,
): Uint8Array {
  const lengthSize = length < 126 ? 0 : length < 65536 ? 2 : 8;
  const head = new Uint8Array(2 + lengthSize + (mask ? 4 : 0));
  head[0] = (final ? 128 : 0) | (compressed ? RSV1 : 0) | opcode;
  head[1] = (mask ? 128 : 0) | (lengthSize === 0 ? length : lengthSize === 2 ? 126 : 127);
  const view = new DataView(head.buffer, 2);
  if (lengthSize === 2) view.setUint16(0, length);
  if (lengthSize === 8) view.setBigUint64(0, BigInt(length));
  if (mask) head.set(mask, 2 + lengthSize);
  return head;
}

/** Part of a data message: a frame, or a piece of a long or compressed one. */
export interface DataPiece {
  kind: "data";
  isText: boolean;
  /** its message was compressed; the piece is not */
  isCompressed: boolean;
  /** without mask; a view, valid until the next read */
  bytes: Uint8Array;
  /** ends its message */
  isLast: boolean;
}

/** A control frame. */
export interface ControlFrame {
  kind: "close" | "ping" | "pong";
  /** without mask; a copy */
  payload: Uint8Array;
}

/** Reads the frames of one side, and checks their order. */
export class FrameReader {
  /** number of bytes read so far, with the heads of frames */
  bytes = 0;
  readonly #connection: BufferedConnection;
  readonly #side: Side;
  /** data frame being read, with the number of bytes read */
  #frame?: FrameHead & { read: number };
  /** checks the text of an unfinished message; `null` within a binary one */
  #message?: TextDecoder | null;
  readonly #inflater?: Inflater;
  /** the unfinished message is compressed */
  #isCompressed = false;
  /** parts of a compressed piece: the next one, and the bytes not inflated yet */
  #inflated?: { part: Uint8Array; rest: AsyncGenerator<Uint8Array, void>; isLast: boolean };

  /** @param deflate agreed on with the side */
  constructor(connection: BufferedConnection, side: Side, deflate?: Deflate) {
    this.#connection = connection;
    this.#side = side;
    if (deflate) this.#inflater = new Inflater(deflate);
  }

  /**
   * @returns `null` when the side has closed its connection between two frames
   * @throws {SocketFault | ConnectionLost}
   */
  async next(): Promise<DataPiece | ControlFrame | null> {
    while (true) {
      if (this.#inflated) return await this.#nextPart(this.#inflated);
      if (!this.#frame) {
        const head = await this.#readHead();
        if (!head) return null;
        if (isControl(head.opcode)) return await this.#readControl(head);
        this.#begin(head);
        this.#frame = { ...head, read: 0 };
      }
      const { bytes, isLast } = await this.#readPiece(this.#frame);
      if (!this.#isCompressed) return this.#piece(bytes, isLast);
      const rest = this.#inflater!.inflate(bytes, isLast);
      const { value: part } = await rest.next();
      if (part || isLast) this.#inflated = { part: part ?? NO_BYTES, rest, isLast };
    }
  }

  /** Frees the window of compression. */
  close(): void {
    this.#inflater?.close();
  }

  /** Takes the part that waits, and inflates the next one: only the last may end its message. */
  async #nextPart(inflated: { part: Uint8Array; rest: AsyncGenerator<Uint8Array, void>; isLast: boolean }) {
    const { part, rest, isLast } = inflated;
    const { value: next } = await rest.next();
    if (next) inflated.part = next;
    else this.#inflated = undefined;
    return this.#piece(part, isLast && !next);
  }

  /** A part of the message, whose text is checked. */
  #piece(bytes: Uint8Array, isLast: boolean): DataPiece {
    const isText = this.#message !== null;
    if (isText) this.#checkText(bytes, isLast);
    if (isLast) this.#message = undefined;
    return { kind: "data", isText, isCompressed: this.#isCompressed, bytes, isLast };
  }

  async #readHead(): Promise<FrameHead | undefined> {
    const connection = this.#connection;
    if (connection.count === 0) connection.shrink();
    while (true) {
      const head = parseFrameHead(connection.unread, this.#side, this.#inflater !== undefined);
      if (head) {
        connection.skip(head.size);
        this.bytes += head.size;
        return head;
      }
      const isBetween = connection.count === 0;
      if (await connection.fill()) continue;
      if (isBetween) return undefined;
      throw new ConnectionLost("closed the connection within a frame");
    }
  }

  async #readControl({ opcode, length, mask }: FrameHead): Promise<ControlFrame> {
    await this.#fill(length);
    const payload = this.#connection.unread.slice(0, length);
    this.#connection.skip(length);
    this.bytes += length;
    if (mask) applyMask(payload, mask, 0);
    const kind = opcode === OPCODE.close ? "close" : opcode === OPCODE.ping ? "ping" : "pong";
    return { kind, payload };
  }

  /** Checks that a data frame may come now. @throws {SocketFault} */
  #begin({ opcode, compressed }: FrameHead): void {
    if (opcode === OPCODE.continuation) {
      if (this.#message === undefined) throw new SocketFault("a continuation without a message");
    } else {
      if (this.#message !== undefined) throw new SocketFault("a new message within another");
      this.#message = opcode === OPCODE.text
        ? new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
        : null;
      this.#isCompressed = compressed === true;
    }
  }

  async #readPiece(frame: FrameHead & { read: number }): Promise<{ bytes: Uint8Array; isLast: boolean }> {
    const rest = frame.length - frame.read;
    // A frame that is held whole keeps its boundaries.
    await this.#fill(frame.length <= FRAME_WHOLE_MAX ? rest : Math.min(rest, 1));
    const bytes = this.#connection.unread.subarray(0, rest);
    this.#connection.skip(bytes.length);
    if (frame.mask) applyMask(bytes, frame.mask, frame.read);
    frame.read += bytes.length;
    this.bytes += bytes.length;
    const isLast = frame.final && frame.read === frame.length;
    if (frame.read === frame.length) this.#frame = undefined;
    return { bytes, isLast };
  }

  /** @throws {SocketFault} 1007 */
  #checkText(bytes: Uint8Array, isLast: boolean): void {
    try {
      this.#message!.decode(bytes, { stream: !isLast });
    } catch {
      throw new SocketFault("text that is not UTF-8", 1007);
    }
  }

  /** Waits for `count` unread bytes. */
  async #fill(count: number): Promise<void> {
    while (this.#connection.count < count) {
      if (!await this.#connection.fill()) throw new ConnectionLost("closed the connection within a frame");
    }
  }
}

/** Writes frames to one side, one at a time. */
export class FrameWriter {
  readonly #connection: BufferedConnection;
  readonly #masks?: MaskSource;
  /** settles when every frame so far is written */
  #written: Promise<void> = Promise.resolve();
  /** within a message whose first frame is written */
  #isOpen = false;
  /** messages of sbx that wait for the end of an open message */
  #waiting: string[] = [];
  readonly #deflater?: Deflater;
  /** the open message is written compressed */
  #isCompressed = false;

  /**
   * @param to the side that reads the frames; those to an upstream are masked, with masks that no guest knows
   * @param deflate agreed on with that side
   */
  constructor(connection: BufferedConnection, to: Side, deflate?: Deflate) {
    this.#connection = connection;
    if (to === "upstream") this.#masks = new MaskSource();
    if (deflate) this.#deflater = new Deflater(deflate);
  }

  /**
   * Writes a part of a data message; an empty one only ends it.
   *
   * @param bytes are overwritten
   * @param compresses where that was agreed on; the first part decides
   * @throws {ConnectionLost}
   */
  async writeData(isText: boolean, bytes: Uint8Array, isLast: boolean, compresses = false): Promise<void> {
    if (bytes.length === 0 && !isLast) return;
    if (!this.#isOpen) this.#isCompressed = compresses && this.#deflater?.isAble === true;
    const payload = this.#isCompressed ? await this.#deflater!.deflate(bytes, isLast) : bytes;
    const opcode = this.#isOpen ? OPCODE.continuation : isText ? OPCODE.text : OPCODE.binary;
    const begins = this.#isCompressed && !this.#isOpen;
    this.#isOpen = !isLast;
    await this.#write(opcode, payload, isLast, begins);
    while (!this.#isOpen && this.#waiting.length > 0) await this.writeText(this.#waiting.shift()!);
  }

  /** Writes a text message of sbx, between two messages of the other side. @throws {ConnectionLost} */
  async writeText(text: string): Promise<void> {
    if (this.#isOpen) this.#waiting.push(text);
    else await this.#write(OPCODE.text, new TextEncoder().encode(text), true);
  }

  /** Writes a control frame, also within a message. @throws {ConnectionLost} */
  writeControl(kind: "close" | "ping" | "pong", payload: Uint8Array): Promise<void> {
    return this.#write(OPCODE[kind], payload, true);
  }

  /** Closes the writing side behind every frame so far. */
  end(): void {
    this.#enqueue(() => this.#connection.closeWrite()).catch(
      ignore("the writer of the last frame gets the error"),
    );
  }

  /** Frees the window of compression. */
  close(): void {
    this.#deflater?.close();
  }

  #write(opcode: number, bytes: Uint8Array, isLast: boolean, compressed = false): Promise<void> {
    return this.#enqueue(() => {
      const mask = this.#masks?.next();
      if (mask) applyMask(bytes, mask, 0);
      return this.#connection.writeJoined(
        decodeLatin1(formatFrameHead(opcode, isLast, bytes.length, mask, compressed)),
        bytes,
      );
    });
  }

  #enqueue(write: () => Promise<void>): Promise<void> {
    const done = this.#written.then(write);
    this.#written = done.catch(ignore("the writer of this frame gets the error"));
    return done;
  }
}

/** Random masking keys, made many at once. */
class MaskSource {
  #bytes = new Uint8Array(0);
  #at = 0;

  next(): Uint8Array {
    if (this.#at === this.#bytes.length) {
      this.#bytes = crypto.getRandomValues(new Uint8Array(MASK_BYTES));
      this.#at = 0;
    }
    return this.#bytes.subarray(this.#at, this.#at += 4);
  }
}

/** `bytes` of random masks made at once. */
const MASK_BYTES = 256;

// Close frames (RFC 6455 §5.5.1, §7.4).

/** Codes of sbx's own close frames; a {@linkcode SocketFault} has further codes. */
export const CLOSE = { policy: 1008, tooBig: 1009, internal: 1011 } as const;

/** Content of a close frame. */
interface CloseReason {
  code: number;
  /** UTF-8 */
  reason: Uint8Array;
}

/** Parses the payload of a close frame; `undefined` for an empty one. @throws {SocketFault} */
export function parseClose(payload: Uint8Array): CloseReason | undefined {
  if (payload.length === 0) return undefined;
  if (payload.length === 1) throw new SocketFault("half a close code");
  const code = payload[0] << 8 | payload[1];
  if (!isCloseCode(code)) throw new SocketFault("an invalid close code");
  const reason = payload.slice(2);
  try {
    new TextDecoder("utf-8", { fatal: true }).decode(reason);
  } catch {
    throw new SocketFault("a close reason that is not UTF-8", 1007);
  }
  return { code, reason };
}

/** Codes that may be sent: the RFC's and its registry's, libraries', and applications'. */
function isCloseCode(code: number): boolean {
  if (code >= 3000) return code < 5000;
  return code >= 1000 && code <= 1014 && !RESERVED_CODES.has(code);
}

/** Codes that only describe a connection, and are never sent. */
const RESERVED_CODES = new Set([1004, 1005, 1006]);

/** Payload of a close frame; a reason that does not fit is left out. */
export function formatClose(code: number, reason: Uint8Array = NO_BYTES): Uint8Array {
  const text = reason.length <= CONTROL_PAYLOAD_MAX - 2 ? reason : NO_BYTES;
  return Uint8Array.from([code >> 8, code & 255, ...text]);
}
