/** The frames that every sbx wire speaks (contracts.md §7). Knows nothing of what they say. */
export { encodeFrame, FRAME_LIMIT, FrameError } from "./frame.ts";
export { FrameReader } from "./reader.ts";
export { type Channel, FrameChannel } from "./channel.ts";
export { writeAll } from "./write.ts";
