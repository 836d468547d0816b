/** Maximum size of one frame, in `bytes` (docs/design/contracts/07-guest-wire.md §7). */
export const FRAME_LIMIT = 2 * 1024 * 1024;

/**
 * Nesting levels of one frame: an MCP result of 200 levels in its messages
 * (docs/design/contracts/14-limits.md §14).
 */
export const FRAME_DEPTH_MAX = 256;

/** Framing violation by the peer. Later bytes cannot be trusted, so the connection is closed. */
export class FrameError extends Error {
  override name = "FrameError";
}

/** The peer went away within a frame. */
export class FrameCut extends FrameError {}

const encoder = new TextEncoder();

/** Encodes one frame: u32 big-endian length, then `message` as UTF-8 JSON. */
export function encodeFrame(message: unknown, limit = FRAME_LIMIT): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(message);
  // UTF-8 takes at most 3 bytes per UTF-16 unit; encodeInto saves the copy of encode + set.
  const frame = new Uint8Array(4 + text.length * 3);
  const { written } = encoder.encodeInto(text, frame.subarray(4));
  if (written > limit) throw new FrameError(`frame of ${written} bytes exceeds the limit of ${limit}`);
  new DataView(frame.buffer).setUint32(0, written);
  return frame.subarray(0, 4 + written);
}
