/** Content encodings of bodies (RFC 9110 §8.4), decoded up to a limit: a compression bomb stays small. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { BUFFERED_BODY_MAX, ENCODINGS_MAX, FRAMES_MAX } from "../limit.ts";
import type { Header } from "./header.ts";
import type { Transform } from "node:stream";

/**
 * Encodings that change no byte of the payload's text: `aws-chunked` puts lines
 * with sizes between its pieces.
 */
const PLAIN = new Set(["", "identity", "aws-chunked"]);

/**
 * Content encodings of a body, from all its fields and in the order in which they were applied, separated
 * by commas; `undefined` for none.
 */
export function encodingOf(headers: readonly Header[]): string | undefined {
  const encodings: string[] = [];
  for (const [name, value] of headers) {
    if (name !== "content-encoding") continue;
    for (const encoding of value.toLowerCase().split(",")) {
      if (!PLAIN.has(encoding.trim())) encodings.push(encoding.trim());
    }
  }
  return encodings.length > 0 ? encodings.join(",") : undefined;
}

/** A decoded body. */
export interface Decoded {
  bytes: Uint8Array;
  /** false when the limit cut it, or when it is damaged or followed by other bytes */
  whole: boolean;
  /** a limit cut it, at any of its encodings */
  cut: boolean;
}

/** True for encodings, as {@linkcode encodingOf} returns them, that {@linkcode decodeBody} can undo. */
export function canDecode(encoding: string): boolean {
  const encodings = encoding.split(",");
  return encodings.length <= ENCODINGS_MAX && encodings.every(isKnownEncoding);
}

/**
 * Undoes the encodings of a body, the last one first.
 *
 * @param encoding as {@linkcode encodingOf} returns it
 * @param most `bytes` of the result
 * @returns `undefined` for an unknown encoding, and for more than {@linkcode ENCODINGS_MAX}
 */
export async function decodeBody(
  bytes: Uint8Array,
  encoding: string,
  most: number,
): Promise<Decoded | undefined> {
  const encodings = encoding.split(",").reverse();
  if (encodings.length > ENCODINGS_MAX) return undefined;
  let decoded: Decoded = { bytes, whole: true, cut: false };
  for (const [step, name] of encodings.entries()) {
    const limit = step === encodings.length - 1 ? most : BUFFERED_BODY_MAX;
    const next = await decodeOnce(decoded.bytes, name, limit);
    if (!next) return undefined;
    decoded = { bytes: next.bytes, whole: decoded.whole && next.whole, cut: decoded.cut || next.cut };
  }
  return decoded;
}

async function decodeOnce(bytes: Uint8Array, name: string, most: number): Promise<Decoded | undefined> {
  if (!isKnownEncoding(name)) return undefined;
  if (bytes.length === 0) return { bytes, whole: true, cut: false };
  if (name === "deflate") {
    const wrapped = await runDecoder(name, bytes, most);
    if (wrapped.bytes.length > 0 || wrapped.whole || wrapped.cut) return wrapped;
    // Some senders leave out the zlib header, and servers accept that.
    return await runDecoder("deflate-raw", bytes, most);
  }
  const pieces: Uint8Array[] = [];
  let room = most;
  let rest = bytes;
  // A zstd body may have several frames; the decoder reads one.
  for (let frame = 0; frame < (name === "zstd" ? FRAMES_MAX : 1); frame++) {
    const { bytes: piece, whole, cut, read } = await runDecoder(name, rest, room);
    pieces.push(piece);
    room -= piece.length;
    if (whole || cut || read === 0 || read >= rest.length) return { bytes: joinBytes(pieces), whole, cut };
    rest = rest.subarray(read);
  }
  return { bytes: joinBytes(pieces), whole: false, cut: true };
}

/** Output of one decoder. */
interface DecoderOutput {
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
function isKnownEncoding(encoding: string): boolean {
  return Object.hasOwn(DECODERS, encoding);
}

/**
 * Decodes up to `most` bytes. The decoder works in steps of 16 KB and is stopped at the limit.
 *
 * @throws {TypeError} for an encoding that {@linkcode isKnownEncoding} does not know
 */
async function runDecoder(encoding: string, bytes: Uint8Array, most: number): Promise<DecoderOutput> {
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
