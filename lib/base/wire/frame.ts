/** Most bytes in one frame (contracts.md §7). */
export const FRAME_LIMIT = 2 * 1024 * 1024;

/** A peer broke the framing. Nothing after this can be trusted, so the connection is closed. */
export class FrameError extends Error {
  override name = "FrameError";
}

const encoder = new TextEncoder();

/** One frame: u32 big-endian length, then the UTF-8 JSON of `message`. */
export function encodeFrame(message: unknown, limit = FRAME_LIMIT): Uint8Array<ArrayBuffer> {
  const text = JSON.stringify(message);
  // UTF-8 takes at most three bytes for a UTF-16 unit; encodeInto saves the copy that encode + set would make.
  const frame = new Uint8Array(4 + text.length * 3);
  const { written } = encoder.encodeInto(text, frame.subarray(4));
  if (written > limit) throw new FrameError(`a frame of ${written} bytes is over the limit of ${limit}`);
  new DataView(frame.buffer).setUint32(0, written);
  return frame.subarray(0, 4 + written);
}
