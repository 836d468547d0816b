import { assert } from "@std/assert";
import { constants, deflateRawSync } from "node:zlib";
import { PACKED, packedIn } from "../../../lib/network/message/packed.ts";

const LONG = 3_900_000;

/** A stream of zlib in less than 4 KiB that is long when it is decoded, and damaged after that. */
function damagedBomb(): Uint8Array {
  const stream = deflateRawSync(new Uint8Array(LONG), { finishFlush: constants.Z_FULL_FLUSH });
  // A block of a kind that there is not.
  return new Uint8Array([0x78, 0x9c, ...stream, 0x07, 0x07]);
}

Deno.test("parts that are long and damaged at their end count, and are read up to there", async () => {
  const part = damagedBomb();
  assert(part.length < 4096);
  const body = new Uint8Array(part.length * 100);
  for (let at = 0; at < body.length; at += part.length) body.set(part, at);
  const room = { ...PACKED };
  const lengths: number[] = [];
  for await (const decoded of packedIn(body, room)) lengths.push(decoded.length);
  assert(lengths[0] > LONG - 4096, `${lengths[0]} bytes are read`);
  assert(room.bytes <= 0, `${room.bytes} bytes are left`);
  assert(lengths.length <= PACKED.bytes / LONG + 1, `${lengths.length} parts`);
});
