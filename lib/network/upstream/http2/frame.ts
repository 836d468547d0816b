/** Frames of HTTP/2 (RFC 9113 §4, §6). */

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

export const NO_ERROR = 0;
export const PROTOCOL_ERROR = 1;
export const FLOW_CONTROL_ERROR = 3;
export const FRAME_SIZE_ERROR = 6;
export const REFUSED_STREAM = 7;
export const CANCEL = 8;
export const COMPRESSION_ERROR = 9;

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

/** Encodes a GOAWAY frame of a client, which has served no stream of the server. */
export function goAwayFrame(code: number): Uint8Array {
  const payload = new Uint8Array(8);
  new DataView(payload.buffer).setUint32(4, code);
  return frame(GOAWAY, 0, 0, payload);
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
