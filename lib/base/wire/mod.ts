/**
 * Frame format of every sbx wire (docs/design/contracts/07-guest-wire.md §7), independent of the messages,
 * writes of every byte, and closing twice.
 */
export { encodeFrame, FRAME_LIMIT, FrameCut, FrameError } from "./frame.ts";
export { FrameReader } from "./reader.ts";
export { type Channel, closeQuietly, FrameChannel, writeAll } from "./channel.ts";
