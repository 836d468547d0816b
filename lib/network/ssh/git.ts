/** Git inside an SSH channel: the bytes of a client are held until it is decided on, as a request over HTTPS is. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { COMMANDS_MAX, type PushReading, readPush } from "../git/mod.ts";
import type { ChannelReader } from "./channel.ts";

/** Length of a packet's length, in characters. */
const HEAD = 4;

/** First bytes of a client of git. */
export interface GitCall {
  /** held bytes, to send once they are allowed */
  bytes: Uint8Array;
  /** the client asks for nothing: it ends, or says that it is done */
  isIdle: boolean;
  /** changes of a push */
  push?: PushReading;
}

/** Reads the bytes of a client before anything may pass: of a fetch its first packet, of a push all of its commands. */
export async function readCall(from: ChannelReader, isPush: boolean): Promise<GitCall> {
  let bytes: Uint8Array = new Uint8Array();
  while (true) {
    const end = isPush ? commandsEnd(bytes) : bytes.length >= HEAD ? HEAD : undefined;
    if (end !== undefined || bytes.length > COMMANDS_MAX) break;
    const more = await from.next();
    if (!more) break;
    bytes = bytes.length === 0 ? more : joinBytes<ArrayBufferLike>([bytes, more]);
  }
  // A flush without anything before it: there is nothing to fetch or push.
  const isIdle = bytes.length === 0 || isFlush(bytes);
  if (!isPush || isIdle) return { bytes, isIdle };
  return { bytes, isIdle, push: readPush(bytes.subarray(0, COMMANDS_MAX)) };
}

/** End of a list of packets; `undefined` before there is one. Bytes that are no packets end it. */
function commandsEnd(bytes: Uint8Array): number | undefined {
  for (let at = 0; at + HEAD <= bytes.length;) {
    const digits = new TextDecoder("latin1").decode(bytes.subarray(at, at + HEAD));
    const length = /^[0-9a-fA-F]{4}$/.test(digits) ? parseInt(digits, 16) : 0;
    if (length < HEAD) return at + HEAD;
    at += length;
  }
  return undefined;
}

function isFlush(bytes: Uint8Array): boolean {
  return new TextDecoder("latin1").decode(bytes.subarray(0, HEAD)) === "0000";
}
