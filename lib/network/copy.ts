import { writeAll } from "../base/wire/mod.ts";
import type { ByteStream } from "./connection.ts";

const SMALL = 4 * 1024;
const LARGE = 128 * 1024;

/**
 * Copies one way until the end, and closes the other side's writing end. The buffer grows with the reads, so that quiet
 * connections cost little.
 *
 * @param moved called with the number of bytes, after they were written
 */
export async function copy(from: ByteStream, to: ByteStream, moved?: (count: number) => void): Promise<void> {
  let buffer = new Uint8Array(SMALL);
  while (true) {
    const count = await from.read(buffer);
    if (count === null) break;
    const piece = count === buffer.length ? buffer : buffer.subarray(0, count);
    const written = await to.write(piece);
    if (written < count) await writeAll(to, piece.subarray(written));
    if (piece === buffer && count < LARGE) buffer = new Uint8Array(count * 4 > LARGE ? LARGE : count * 4);
    moved?.(count);
  }
  await to.closeWrite?.().catch(() => {});
}
