import type { BufferedConnection } from "../connection.ts";
import { ConnectionLost } from "../fault.ts";
import { FRAME_WHOLE_MAX } from "../limit.ts";
import {
  applyMask,
  type FrameHead,
  isControl,
  OPCODE,
  parseFrameHead,
  type Side,
  SocketFault,
} from "./frame.ts";

/** Part of a data message: a frame, or a piece of a long one. */
export interface DataPiece {
  kind: "data";
  isText: boolean;
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

  constructor(connection: BufferedConnection, side: Side) {
    this.#connection = connection;
    this.#side = side;
  }

  /** @returns `null` when the side has closed its connection between two frames @throws {SocketFault | ConnectionLost} */
  async next(): Promise<DataPiece | ControlFrame | null> {
    if (!this.#frame) {
      const head = await this.#readHead();
      if (!head) return null;
      if (isControl(head.opcode)) return await this.#readControl(head);
      this.#begin(head);
      this.#frame = { ...head, read: 0 };
    }
    return await this.#readPiece(this.#frame);
  }

  async #readHead(): Promise<FrameHead | undefined> {
    const connection = this.#connection;
    if (connection.count === 0) connection.shrink();
    while (true) {
      const head = parseFrameHead(connection.unread, this.#side);
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
  #begin({ opcode }: FrameHead): void {
    if (opcode === OPCODE.continuation) {
      if (this.#message === undefined) throw new SocketFault("a continuation without a message");
    } else {
      if (this.#message !== undefined) throw new SocketFault("a new message within another");
      this.#message = opcode === OPCODE.text
        ? new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
        : null;
    }
  }

  async #readPiece(frame: FrameHead & { read: number }): Promise<DataPiece> {
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
    const isText = this.#message !== null;
    if (isText) this.#checkText(bytes, isLast);
    if (isLast) this.#message = undefined;
    return { kind: "data", isText, bytes, isLast };
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
