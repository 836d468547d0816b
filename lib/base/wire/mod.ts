/**
 * Frame format of every sbx wire (docs/design/contracts/07-guest-wire.md §7), independent of the messages,
 * reads and writes of every byte, and closing twice.
 */
export {
  type Channel,
  closeQuietly,
  encodeFrame,
  FRAME_LIMIT,
  FrameChannel,
  FrameCut,
  FrameError,
  FrameReader,
  readExactly,
  writeAll,
} from "./channel.ts";
