/**
 * Packed parts of a body, wherever they begin: gzip, also in base64, the streams of zlib that git packs
 * and PDFs are made of, the files of a ZIP.
 */
import { Buffer } from "node:buffer";
import { joinBytes } from "../../base/bytes/mod.ts";
import { NO_BYTES } from "./bytes.ts";

/** Limits of one search: a compression bomb stays small. */
export const PACKED = {
  /** `bytes` of all parts, packed and decoded */
  bytes: 64 * 1024 * 1024,
  /** parts that are tried; bytes that look like one come about by chance every 16 KiB */
  parts: 4096,
  /** parts within parts */
  depth: 3,
};

const GZIP = 0x1f;
const ZLIB = 0x78;
const ZLIB_HEAD = 2;
const ZLIB_FLAGS: readonly number[] = [0x01, 0x5e, 0x9c, 0xda];
const ZIP = 0x50;
/** Length of the head of a file in a ZIP, before its name. */
const ZIP_HEAD = 30;
const ZIP_DEFLATED = 8;
/** gzip in base64. */
const GZIP_BASE64 = "H4sI";
const BASE64_RUN = /[\w+/=\s-]*/y;

/** The decoded parts of a body, damaged ones as far as they go. */
export async function* packedIn(
  bytes: Uint8Array,
  room = { ...PACKED },
): AsyncGenerator<Uint8Array> {
  for (const part of partsOf(bytes)) {
    if (room.parts-- <= 0 || room.bytes <= 0) return;
    const { decoded, read } = await inflate(part, room.bytes);
    room.bytes -= decoded.length + read;
    if (decoded.length === 0) continue;
    yield decoded;
    if (room.depth <= 1) continue;
    room.depth--;
    yield* packedIn(decoded, room);
    room.depth++;
  }
}

function* partsOf(bytes: Uint8Array): Generator<Uint8Array> {
  let heads = 0;
  for (let at = 0; at + 2 < bytes.length && heads < HEADS_MAX; at++) {
    const first = bytes[at];
    if (first !== ZLIB && (first !== GZIP || bytes[at + 1] !== 0x8b) && first !== ZIP) continue;
    const part = partAt(bytes, at);
    if (part) yield part;
    if (first === GZIP) heads++;
  }
  yield* partsInBase64(Buffer.from(bytes.buffer, bytes.byteOffset, bytes.length));
}

function partAt(bytes: Uint8Array, at: number): Uint8Array | undefined {
  const first = bytes[at];
  if (first === ZLIB) return ZLIB_FLAGS.includes(bytes[at + 1]) ? bytes.subarray(at + ZLIB_HEAD) : undefined;
  if (first === GZIP) return gzipAt(bytes.subarray(at));
  if (first !== ZIP || at + ZIP_HEAD > bytes.length) return undefined;
  const head = new DataView(bytes.buffer, bytes.byteOffset + at, ZIP_HEAD);
  if (head.getUint32(0) !== 0x504b0304 || head.getUint16(8, true) !== ZIP_DEFLATED) return undefined;
  const from = at + ZIP_HEAD + head.getUint16(26, true) + head.getUint16(28, true);
  return bytes.subarray(from);
}

/** Flags of optional fields in the head of gzip (RFC 1952, 2.3.1). */
const [HAS_SUM, HAS_EXTRA, HAS_NAME, HAS_COMMENT] = [2, 4, 8, 16];
const GZIP_HEAD = 10;
/** Most heads of gzip that are read in one text. */
const HEADS_MAX = 65_536;
/** Longest name, and longest comment. */
const NAME_MAX = 256;

/** The data of a file of gzip: what follows it, such as the end of a form, is no part of it. */
function gzipAt(bytes: Uint8Array): Uint8Array | undefined {
  if (bytes[1] !== 0x8b || bytes[2] !== 8) return undefined;
  const flags = bytes[3];
  let from = GZIP_HEAD;
  if (flags & HAS_EXTRA) from += 2 + bytes[from] + (bytes[from + 1] << 8);
  for (const flag of [HAS_NAME, HAS_COMMENT]) {
    if (flags & flag) {
      const end = bytes.subarray(0, from + NAME_MAX).indexOf(0, from);
      if (end < 0) return undefined;
      from = end + 1;
    }
  }
  if (flags & HAS_SUM) from += 2;
  return bytes.subarray(from);
}

/**
 * Encoded `bytes` that are decoded first, which most bytes that look like a part do not survive, and most
 * that they may become: a part that is damaged later than that counts as work.
 */
const STEP = 4096, TRIAL_BYTES = 64 * 1024;

/** A decoded part, and the packed `bytes` of it that were read. */
interface Inflated {
  decoded: Uint8Array;
  read: number;
}

/** Decodes a part without its head up to its end, to where it is damaged, or to `most` bytes. */
async function inflate(bytes: Uint8Array, most: number): Promise<Inflated> {
  const { constants: { Z_SYNC_FLUSH }, createInflateRaw, inflateRawSync } = await import("node:zlib");
  const options = { finishFlush: Z_SYNC_FLUSH };
  let isLonger = false;
  const whole = (part: Uint8Array, maxOutputLength: number): Inflated | undefined => {
    try {
      const info = { ...options, maxOutputLength, info: true };
      // Its types know no `info`.
      const { buffer, engine } = inflateRawSync(part, info) as unknown as {
        buffer: Uint8Array;
        engine: { bytesWritten: number };
      };
      return { decoded: buffer, read: engine.bytesWritten };
    } catch (error) {
      // Otherwise it is damaged.
      isLonger = (error as { code?: unknown }).code === "ERR_BUFFER_TOO_LARGE";
    }
  };
  const first = whole(bytes.subarray(0, STEP), Math.min(most, TRIAL_BYTES));
  if (!first && !isLonger) return { decoded: NO_BYTES, read: 0 };
  if (first && (first.read < STEP || bytes.length <= STEP)) return first;
  const all = whole(bytes, most);
  if (all) return all;
  const decoder = createInflateRaw(options);
  const pieces: Uint8Array[] = [];
  let room = most;
  const over = Promise.withResolvers<void>();
  let isOver = false;
  const end = () => {
    isOver = true;
    over.resolve();
  };
  decoder.on("data", (piece: Uint8Array) => {
    if (room > 0) pieces.push(piece.subarray(0, room));
    room -= piece.length;
    if (room <= 0) end();
  });
  for (const name of ["end", "error", "close"]) decoder.on(name, end);
  let read = 0;
  for (; read < bytes.length && !isOver; read += STEP) {
    const taken = new Promise((resolve) => decoder.write(bytes.subarray(read, read + STEP), resolve));
    await Promise.race([taken, over.promise]);
  }
  if (!isOver) {
    decoder.end();
    await over.promise;
  }
  decoder.destroy();
  return { decoded: joinBytes(pieces), read };
}

function* partsInBase64(bytes: Buffer): Generator<Uint8Array> {
  if (bytes.indexOf(GZIP_BASE64) < 0) return;
  const text = bytes.toString("latin1");
  for (let at = text.indexOf(GZIP_BASE64); at >= 0; at = text.indexOf(GZIP_BASE64, at)) {
    BASE64_RUN.lastIndex = at;
    const [run] = BASE64_RUN.exec(text)!;
    at += run.length;
    const part = gzipAt(Buffer.from(run, "base64"));
    if (part) yield part;
  }
}
