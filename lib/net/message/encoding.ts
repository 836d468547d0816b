/** Content encodings of bodies (RFC 9110 §8.4), decoded up to a limit: a compression bomb stays small. */
import type { Transform } from "node:stream";
import { type Header, headerValue } from "./header.ts";

/** Content encoding of a body; `undefined` for none and for `identity`. */
export function encodingOf(headers: readonly Header[]): string | undefined {
  const encoding = headerValue(headers, "content-encoding")?.toLowerCase();
  return encoding === "identity" || encoding === "" ? undefined : encoding;
}

/**
 * Decodes the first `most` bytes of an encoded body; `undefined` for an unknown encoding. A damaged or truncated body
 * gives the bytes before the damage.
 */
export async function decodeBody(
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
  return decoder && await decodeBeginning(decoder, bytes, most);
}

/** The decoder works in steps of 16 KB and is stopped at the limit. */
function decodeBeginning(decoder: Transform, bytes: Uint8Array, most: number): Promise<Uint8Array> {
  const pieces: Uint8Array[] = [];
  let count = 0;
  return new Promise((resolve) => {
    const finish = () => {
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
      if (count >= most) finish();
    });
    decoder.on("error", finish);
    decoder.on("end", finish);
    decoder.end(bytes);
  });
}
