/** Frames of HTTP/2 (RFC 9113 §4, §6): made, checked, and joined to header blocks. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { MessageFault } from "../fault.ts";
import { HEAD_MAX } from "../limit.ts";

export const DATA = 0;
export const HEADERS = 1;
export const PRIORITY = 2;
export const RST_STREAM = 3;
export const SETTINGS = 4;
export const PUSH_PROMISE = 5;
export const PING = 6;
export const GOAWAY = 7;
export const WINDOW_UPDATE = 8;
export const CONTINUATION = 9;

export const END_STREAM = 0x1;
export const ACK = 0x1;
export const END_HEADERS = 0x4;
export const PADDED = 0x8;
export const WITH_PRIORITY = 0x20;

export const ENABLE_PUSH = 2;
export const MAX_CONCURRENT_STREAMS = 3;
export const INITIAL_WINDOW_SIZE = 4;
export const MAX_FRAME_SIZE = 5;
export const MAX_HEADER_LIST_SIZE = 6;
export const ENABLE_CONNECT_PROTOCOL = 8;

export const NO_ERROR = 0;
export const PROTOCOL_ERROR = 1;
export const FLOW_CONTROL_ERROR = 3;
export const FRAME_SIZE_ERROR = 6;
export const INTERNAL_ERROR = 2;
export const STREAM_CLOSED = 5;
export const REFUSED_STREAM = 7;
export const CANCEL = 8;
export const COMPRESSION_ERROR = 9;
export const ENHANCE_YOUR_CALM = 11;

/** Length of a frame head in `bytes`. */
export const FRAME_HEAD = 9;
/** Longest accepted payload in `bytes`: the default, which is the minimum. */
export const FRAME_MAX = 16_384;
/** Initial and largest window in `bytes`. */
export const WINDOW = 65_535;
export const WINDOW_MAX = 2 ** 31 - 1;

export const PREFACE = new TextEncoder().encode("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");

export interface Frame {
  type: number;
  flags: number;
  stream: number;
  payload: Uint8Array;
}

/** Encodes a frame. */
export function frame(type: number, flags: number, stream: number, payload: Uint8Array): Uint8Array {
  const bytes = new Uint8Array(FRAME_HEAD + payload.length);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, payload.length * 256 + type);
  view.setUint8(4, flags);
  view.setUint32(5, stream);
  bytes.set(payload, FRAME_HEAD);
  return bytes;
}

/** Encodes a frame whose payload is one 32-bit number. */
export function numberFrame(type: number, stream: number, value: number): Uint8Array {
  const payload = new Uint8Array(4);
  new DataView(payload.buffer).setUint32(0, value);
  return frame(type, 0, stream, payload);
}

/**
 * Encodes a GOAWAY frame.
 * @param last the last stream of the peer that was served; a client has served none
 */
export function goAwayFrame(code: number, last = 0): Uint8Array {
  const payload = new Uint8Array(8);
  const view = new DataView(payload.buffer);
  view.setUint32(0, last);
  view.setUint32(4, code);
  return frame(GOAWAY, 0, 0, payload);
}

/** Encodes the bytes of a body as DATA frames. @param max longest payload of a frame */
export function dataFrames(stream: number, bytes: Uint8Array, max: number, last: boolean): Uint8Array {
  const count = Math.max(1, Math.ceil(bytes.length / max));
  const frames = new Uint8Array(bytes.length + count * FRAME_HEAD);
  const view = new DataView(frames.buffer);
  for (let frame = 0, at = 0; frame < count; frame++) {
    const piece = bytes.subarray(frame * max, (frame + 1) * max);
    view.setUint32(at, piece.length * 256 + DATA);
    view.setUint8(at + 4, last && frame === count - 1 ? END_STREAM : 0);
    view.setUint32(at + 5, stream);
    frames.set(piece, at + FRAME_HEAD);
    at += FRAME_HEAD + piece.length;
  }
  return frames;
}

/**
 * Encodes a header block as a HEADERS frame and its continuations, in one piece:
 * nothing may come between them.
 */
export function headerFrames(stream: number, block: Uint8Array, max: number, last: boolean): Uint8Array {
  const frames: Uint8Array[] = [];
  for (let at = 0; at === 0 || at < block.length; at += max) {
    const flags = (at + max >= block.length ? END_HEADERS : 0) | (at === 0 && last ? END_STREAM : 0);
    frames.push(frame(at === 0 ? HEADERS : CONTINUATION, flags, stream, block.subarray(at, at + max)));
  }
  return joinBytes(frames);
}

/** Encodes a SETTINGS frame. */
export function settingsFrame(settings: readonly (readonly [id: number, value: number])[]): Uint8Array {
  const payload = new Uint8Array(settings.length * 6);
  const view = new DataView(payload.buffer);
  for (const [at, [id, value]] of settings.entries()) {
    view.setUint16(at * 6, id);
    view.setUint32(at * 6 + 2, value);
  }
  return frame(SETTINGS, 0, 0, payload);
}

/**
 * Violation of HTTP/2 by the peer: a connection error (RFC 9113 §5.4.1), unless it is handled for one stream.
 */
export class Http2Fault extends MessageFault {
  override name = "Http2Fault";

  /** @param code error code of RFC 9113 §7, for the peer */
  constructor(reason: string, readonly code: number) {
    super(reason);
  }
}

// Frames that no peer may send (RFC 9113 §6), in any state of their stream.

/** Names of the types that sbx knows, as in the RFC; it ignores others (RFC 9113 §4.1). */
const TYPE_NAMES: Record<number, string> = {
  [DATA]: "DATA",
  [HEADERS]: "HEADERS",
  [PRIORITY]: "PRIORITY",
  [RST_STREAM]: "RST_STREAM",
  [SETTINGS]: "SETTINGS",
  [PUSH_PROMISE]: "PUSH_PROMISE",
  [PING]: "PING",
  [GOAWAY]: "GOAWAY",
  [WINDOW_UPDATE]: "WINDOW_UPDATE",
  [CONTINUATION]: "CONTINUATION",
};
/** Types about the whole connection. */
const OF_CONNECTION: ReadonlySet<number> = new Set([SETTINGS, PING, GOAWAY]);
/** Types about one stream or the connection. */
const OF_EITHER: ReadonlySet<number> = new Set([WINDOW_UPDATE]);
/** Fixed lengths of payloads in `bytes`. */
const LENGTHS = new Map([[PRIORITY, 5], [RST_STREAM, 4], [PING, 8], [WINDOW_UPDATE, 4]]);
/** Shortest payload of a GOAWAY in `bytes`. */
const GOAWAY_MIN = 8;
/** Length of one setting in `bytes`. */
const SETTING = 6;

/**
 * Checks type, stream and length of a frame.
 *
 * @param isIdle whether a stream may not get this frame yet: it has no request
 * @throws {Http2Fault} `PROTOCOL_ERROR` or `FRAME_SIZE_ERROR`
 */
export function checkFrame(
  { type, flags, stream, payload }: Frame,
  isIdle: (stream: number, type: number) => boolean,
): void {
  const name = TYPE_NAMES[type];
  if (name === undefined) return;
  if (type === PUSH_PROMISE) throw new Http2Fault("an unexpected server push", PROTOCOL_ERROR);
  if (OF_CONNECTION.has(type)) {
    if (stream !== 0) throw new Http2Fault(`a ${name} frame of a stream`, PROTOCOL_ERROR);
  } else if (stream === 0) {
    if (!OF_EITHER.has(type)) throw new Http2Fault(`a ${name} frame without a stream`, PROTOCOL_ERROR);
  } else if (isIdle(stream, type)) {
    throw new Http2Fault(`a ${name} frame of a stream without a request`, PROTOCOL_ERROR);
  }
  if (!isRightLength(type, flags, payload.length)) {
    throw new Http2Fault(`a ${name} frame of the wrong length`, FRAME_SIZE_ERROR);
  }
}

function isRightLength(type: number, flags: number, length: number): boolean {
  if (type === SETTINGS) return length % SETTING === 0 && (length === 0 || !(flags & ACK));
  if (type === GOAWAY) return length >= GOAWAY_MIN;
  return length === (LENGTHS.get(type) ?? length);
}

/** Payload of DATA or HEADERS without padding and priority. @throws {Http2Fault} */
export function contentOf({ type, flags, payload }: Frame): Uint8Array {
  let content = payload;
  if (flags & PADDED) {
    if (payload.length === 0) throw new Http2Fault("a padded frame without padding", FRAME_SIZE_ERROR);
    const end = payload.length - payload[0];
    if (end < 1) throw new Http2Fault("more padding than payload", PROTOCOL_ERROR);
    content = payload.subarray(1, end);
  }
  if (type !== HEADERS || !(flags & WITH_PRIORITY)) return content;
  if (content.length < 5) throw new Http2Fault("a HEADERS frame of the wrong length", FRAME_SIZE_ERROR);
  return content.subarray(5);
}

/** A header block in the pieces of its frames. */
export class HeaderBlock {
  readonly stream: number;
  readonly endsStream: boolean;
  readonly #pieces: Uint8Array[] = [];
  #size = 0;

  /** @param frame the HEADERS frame */
  constructor({ stream, flags }: Frame) {
    this.stream = stream;
    this.endsStream = (flags & END_STREAM) !== 0;
  }

  /** @throws {MessageFault} the block is too long */
  add(piece: Uint8Array): void {
    this.#size += piece.length;
    // An empty piece counts as its frame head, or there could be endless empty pieces.
    if (this.#size + this.#pieces.length * FRAME_HEAD > HEAD_MAX) {
      throw new MessageFault("the head is too long");
    }
    this.#pieces.push(piece.slice());
  }

  joined(): Uint8Array {
    const joined = new Uint8Array(this.#size);
    let at = 0;
    for (const piece of this.#pieces) {
      joined.set(piece, at);
      at += piece.length;
    }
    return joined;
  }
}
