/** Bodies without their content encoding (RFC 9110 §8.4), as far as a limit goes: a bomb never bursts. */
import type { Transform } from "node:stream";

/**
 * The first `most` bytes of what an encoded body stands for; `undefined` for an encoding that is not known. What is
 * damaged or cut off gives what came before.
 */
export async function decoded(
  bytes: Uint8Array,
  encoding: string,
  most: number,
): Promise<Uint8Array | undefined> {
  const zlib = await import("node:zlib");
  const make: Record<string, (() => Transform) | undefined> = {
    "gzip": zlib.createGunzip,
    "x-gzip": zlib.createGunzip,
    "deflate": zlib.createInflate,
    "br": zlib.createBrotliDecompress,
    "zstd": zlib.createZstdDecompress,
  };
  const decoder = make[encoding]?.();
  return decoder && await beginning(decoder, bytes, most);
}

/** The decoder works in steps of 16 KB and is stopped at the limit. */
function beginning(decoder: Transform, bytes: Uint8Array, most: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let count = 0;
  return new Promise((resolve) => {
    const done = () => {
      decoder.destroy();
      const all = new Uint8Array(Math.min(count, most));
      let at = 0;
      for (const piece of pieces) {
        all.set(piece.subarray(0, all.length - at), at);
        at += Math.min(piece.length, all.length - at);
      }
      resolve(all);
    };
    decoder.on("data", (piece: Uint8Array) => {
      if (count >= most) return;
      pieces.push(piece);
      count += piece.length;
      if (count >= most) done();
    });
    decoder.on("error", done);
    decoder.on("end", done);
    decoder.end(bytes);
  });
}
