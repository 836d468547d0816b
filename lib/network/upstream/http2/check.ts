/** Frames that no upstream may send (RFC 9113 §6), in any state of their stream. */
import { Http2Fault } from "./fault.ts";
import * as h2 from "./frame.ts";

/** Names of the types that this client knows, as in the RFC; it ignores others (RFC 9113 §4.1). */
const NAMES: Record<number, string> = {
  [h2.DATA]: "DATA",
  [h2.HEADERS]: "HEADERS",
  [h2.PRIORITY]: "PRIORITY",
  [h2.RST_STREAM]: "RST_STREAM",
  [h2.SETTINGS]: "SETTINGS",
  [h2.PUSH_PROMISE]: "PUSH_PROMISE",
  [h2.PING]: "PING",
  [h2.GOAWAY]: "GOAWAY",
  [h2.WINDOW_UPDATE]: "WINDOW_UPDATE",
  [h2.CONTINUATION]: "CONTINUATION",
};
/** Types about the whole connection. */
const OF_CONNECTION: ReadonlySet<number> = new Set([h2.SETTINGS, h2.PING, h2.GOAWAY]);
/** Types about one stream or the connection. */
const OF_EITHER: ReadonlySet<number> = new Set([h2.WINDOW_UPDATE]);
/** Types that a stream may get before its request. */
const OF_IDLE: ReadonlySet<number> = new Set([h2.PRIORITY]);
/** Fixed lengths of payloads in `bytes`. */
const LENGTHS = new Map([[h2.PRIORITY, 5], [h2.RST_STREAM, 4], [h2.PING, 8], [h2.WINDOW_UPDATE, 4]]);
/** Shortest payload of a GOAWAY in `bytes`. */
const GOAWAY_MIN = 8;
/** Length of one setting in `bytes`. */
const SETTING = 6;

/**
 * Checks type, stream and length of a frame.
 *
 * @param next id of the client's next stream; it and those above are idle, and so are the server's own
 * @throws {Http2Fault} `PROTOCOL_ERROR` or `FRAME_SIZE_ERROR`
 */
export function checkFrame({ type, flags, stream, payload }: h2.Frame, next: number): void {
  const name = NAMES[type];
  if (name === undefined) return;
  if (type === h2.PUSH_PROMISE) throw new Http2Fault("an unexpected server push", h2.PROTOCOL_ERROR);
  if (OF_CONNECTION.has(type)) {
    if (stream !== 0) throw new Http2Fault(`a ${name} frame of a stream`, h2.PROTOCOL_ERROR);
  } else if (stream === 0) {
    if (!OF_EITHER.has(type)) throw new Http2Fault(`a ${name} frame without a stream`, h2.PROTOCOL_ERROR);
  } else if ((stream >= next || stream % 2 === 0) && !OF_IDLE.has(type)) {
    throw new Http2Fault(`a ${name} frame of a stream without a request`, h2.PROTOCOL_ERROR);
  }
  if (!isRightLength(type, flags, payload.length)) {
    throw new Http2Fault(`a ${name} frame of the wrong length`, h2.FRAME_SIZE_ERROR);
  }
}

function isRightLength(type: number, flags: number, length: number): boolean {
  if (type === h2.SETTINGS) return length % SETTING === 0 && (length === 0 || !(flags & h2.ACK));
  if (type === h2.GOAWAY) return length >= GOAWAY_MIN;
  return length === (LENGTHS.get(type) ?? length);
}

/** Payload of DATA or HEADERS without padding and priority. @throws {Http2Fault} */
export function contentOf({ type, flags, payload }: h2.Frame): Uint8Array {
  let content = payload;
  if (flags & h2.PADDED) {
    if (payload.length === 0) throw new Http2Fault("a padded frame without padding", h2.FRAME_SIZE_ERROR);
    const end = payload.length - payload[0];
    if (end < 1) throw new Http2Fault("more padding than payload", h2.PROTOCOL_ERROR);
    content = payload.subarray(1, end);
  }
  if (type !== h2.HEADERS || !(flags & h2.WITH_PRIORITY)) return content;
  if (content.length < 5) throw new Http2Fault("a HEADERS frame of the wrong length", h2.FRAME_SIZE_ERROR);
  return content.subarray(5);
}
