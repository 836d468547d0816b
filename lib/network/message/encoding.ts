/** Content encodings of bodies (RFC 9110 §8.4), decoded up to a limit: a compression bomb stays small. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { BUFFERED_BODY_MAX, ENCODINGS_MAX, FRAMES_MAX } from "../limit.ts";
import { isKnownEncoding, runDecoder } from "./decoder.ts";
import type { Header } from "./header.ts";

/** Encodings that change no byte of the payload's text: `aws-chunked` puts lines with sizes between its pieces. */
const PLAIN = new Set(["", "identity", "aws-chunked"]);

/**
 * Content encodings of a body, from all its fields and in the order in which they were applied, separated by commas;
 * `undefined` for none.
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
