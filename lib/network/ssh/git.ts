/**
 * Git inside an SSH channel: the bytes of a client are held until it is decided
 * on, as a request over HTTPS is.
 */
import { COMMANDS_MAX, type PushReading, readPush } from "../git/mod.ts";
import type { ChannelReader } from "./channel.ts";

/** Length of a packet's length, in characters. */
const HEAD = 4;
/** Room for the first bytes, in `bytes`; it grows with them. */
const FIRST_ROOM = 4096;

/** First bytes of a git client. */
export interface GitCall {
  /** held bytes, to send once they are allowed */
  bytes: Uint8Array;
  /** the client asks for nothing: it ends, or says that it is done */
  isIdle: boolean;
  /** changes of a push */
  push?: PushReading;
}

/**
 * Reads the bytes of a client before anything may pass: of a fetch its first packet,
 * of a push all of its commands.
 */
export async function readCall(from: Pick<ChannelReader, "next">, isPush: boolean): Promise<GitCall> {
  // A client may send single bytes, and packets without content: each is copied and looked at about once.
  let room = new Uint8Array(FIRST_ROOM);
  let size = 0;
  let scan: Scan = { at: 0, isEnd: false };
  while (true) {
    if (isPush) scan = scanCommands(room.subarray(0, size), scan.at);
    if ((isPush ? scan.isEnd : size >= HEAD) || size > COMMANDS_MAX) break;
    const more = await from.next();
    if (!more) break;
    if (size + more.length > room.length) {
      const larger = new Uint8Array(2 * (size + more.length));
      larger.set(room.subarray(0, size));
      room = larger;
    }
    room.set(more, size);
    size += more.length;
  }
  const bytes = room.subarray(0, size);
  // A flush without anything before it: there is nothing to fetch or push.
  const isIdle = bytes.length === 0 || isFlush(bytes);
  if (!isPush || isIdle) return { bytes, isIdle };
  return { bytes, isIdle, push: readPush(bytes.subarray(0, COMMANDS_MAX)) };
}

/** How far a list of packets was looked at. */
interface Scan {
  /** beginning of the next packet */
  at: number;
  /** the list ends there; bytes that are no packets end it too */
  isEnd: boolean;
}

function scanCommands(bytes: Uint8Array, from: number): Scan {
  let at = from;
  while (at + HEAD <= bytes.length) {
    const digits = new TextDecoder("latin1").decode(bytes.subarray(at, at + HEAD));
    const length = /^[0-9a-fA-F]{4}$/.test(digits) ? parseInt(digits, 16) : 0;
    if (length < HEAD) return { at, isEnd: true };
    at += length;
  }
  return { at, isEnd: false };
}

function isFlush(bytes: Uint8Array): boolean {
  return new TextDecoder("latin1").decode(bytes.subarray(0, HEAD)) === "0000";
}
