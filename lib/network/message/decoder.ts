import type { Transform } from "node:stream";

/** Output of one decoder. */
export interface DecoderOutput {
  bytes: Uint8Array;
  /** true at the end of the encoded data, if nothing follows it */
  whole: boolean;
  /** more than the limit was decoded */
  cut: boolean;
  /** encoded `bytes` that were read */
  read: number;
}

type Zlib = typeof import("node:zlib");

const DECODERS: Record<string, (zlib: Zlib) => Transform & { bytesWritten: number }> = {
  "gzip": (zlib) => zlib.createGunzip(),
  "x-gzip": (zlib) => zlib.createGunzip(),
  "deflate": (zlib) => zlib.createInflate(),
  "deflate-raw": (zlib) => zlib.createInflateRaw(),
  "br": (zlib) => zlib.createBrotliDecompress(),
  "zstd": (zlib) => zlib.createZstdDecompress(),
};

/** True for a content encoding with a decoder. */
export function isKnownEncoding(encoding: string): boolean {
  return Object.hasOwn(DECODERS, encoding);
}

/**
 * Decodes up to `most` bytes. The decoder works in steps of 16 KB and is stopped at the limit.
 *
 * @throws {TypeError} for an encoding that {@linkcode isKnownEncoding} does not know
 */
export async function runDecoder(encoding: string, bytes: Uint8Array, most: number): Promise<DecoderOutput> {
  const zlib = await import("node:zlib");
  const decoder: Transform & { bytesWritten: number } = DECODERS[encoding](zlib);
  // Only these two do not report a truncated end.
  const probesEnd = encoding === "br" || encoding === "zstd";
  const pieces: Uint8Array[] = [];
  let count = 0;
  return await new Promise((resolve) => {
    const finish = (ended: boolean) => {
      const read = decoder.bytesWritten;
      decoder.destroy();
      const all = new Uint8Array(Math.min(count, most));
      let at = 0;
      for (const piece of pieces) {
        all.set(piece.subarray(0, all.length - at), at);
        at += Math.min(piece.length, all.length - at);
      }
      resolve({
        bytes: all,
        whole: ended && count <= most && read === bytes.length,
        cut: count > most,
        read,
      });
    };
    decoder.on("data", (piece: Uint8Array) => {
      if (count > most) return;
      pieces.push(piece);
      count += piece.length;
      if (count > most) finish(false);
    });
    decoder.on("error", () => finish(false));
    decoder.on("end", () => finish(true));
    decoder.end(probesEnd ? withProbe(bytes) : bytes);
  });
}

/** Appends a byte that a decoder reads only if the encoded data has no end. */
function withProbe(bytes: Uint8Array): Uint8Array {
  const probed = new Uint8Array(bytes.length + 1);
  probed.set(bytes);
  return probed;
}
