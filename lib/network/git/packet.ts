/** Packets of git's protocol (gitprotocol-common): four hex digits of length, then the bytes. */
import { joinBytes } from "../../base/bytes/mod.ts";

/** A packet's bytes; `flush` for the packet that ends a list. */
export type Packet = Uint8Array | "flush";

const encoder = new TextEncoder();
const decoder = new TextDecoder();

/** Reads the packets of a list. @throws {PushFault} */
export function* readPackets(bytes: Uint8Array): Generator<Packet> {
  for (let at = 0;;) {
    if (at + 4 > bytes.length) throw new PushFault("its commands have no end");
    const digits = decoder.decode(bytes.subarray(at, at + 4));
    if (!/^[0-9a-fA-F]{4}$/.test(digits)) throw new PushFault("a packet without a length");
    const length = parseInt(digits, 16);
    if (length === 0) {
      at += 4;
      yield "flush";
      continue;
    }
    if (length < 5 || length > PACKET_MAX) throw new PushFault(`a packet of length ${length}`);
    if (at + length > bytes.length) throw new PushFault("its commands have no end");
    yield bytes.subarray(at + 4, at + length);
    at += length;
  }
}

/** A push that cannot be read as every server reads it; the message is a noun phrase. */
export class PushFault extends Error {}

/** Formats a packet. @param content text as UTF-8, or bytes */
export function formatPacket(content: string | Uint8Array): Uint8Array {
  const bytes = typeof content === "string" ? encoder.encode(content) : content;
  return joinBytes([encoder.encode((bytes.length + 4).toString(16).padStart(4, "0")), bytes]);
}

export const FLUSH: Uint8Array = encoder.encode("0000");

// Limits on reading git's requests (docs/design/contracts/05-policy.md §5, "Git").

/** Longest commands of one push, in `bytes`: everything before its pack. */
export const COMMANDS_MAX = 512 * 1024;
/** Most updates of one push; a mirror of more refs is pushed in parts. */
export const UPDATES_MAX = 1000;
/** Longest packet with its length, in `bytes` (git's LARGE_PACKET_MAX). */
export const PACKET_MAX = 65_520;
/** Longest packet of a client that knows `side-band` only, in `bytes`. */
export const SMALL_BAND_MAX = 1000;
