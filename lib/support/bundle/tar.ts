/** A tar archive of few small files (POSIX ustar), compressed with zstd. */
import * as zlib from "node:zlib";
import { SbxError } from "../../base/error/mod.ts";

const BLOCK = 512;
const encoder = new TextEncoder();

/** One file of an archive; its path has at most 100 bytes. */
export interface TarFile {
  path: string;
  bytes: Uint8Array;
}

/** Makes the archive. @param mtime of all files, in seconds */
export function tarOf(files: readonly TarFile[], mtime: number): Uint8Array {
  const parts = files.flatMap(({ path, bytes }) => {
    const padding = new Uint8Array((BLOCK - bytes.length % BLOCK) % BLOCK);
    return [headerOf(path, bytes.length, mtime), bytes, padding];
  });
  parts.push(new Uint8Array(2 * BLOCK));
  const out = new Uint8Array(parts.reduce((sum, { length }) => sum + length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

/** Compresses with zstd. @throws {SbxError} `bundle.unsupported`: this runtime has no zstd */
export function compress(bytes: Uint8Array): Uint8Array {
  if (typeof zlib.zstdCompressSync !== "function") {
    throw new SbxError("bundle.unsupported", "this build of sbx cannot compress with zstd", {
      hint: "sbx debug --out report.json writes the report alone",
    });
  }
  return new Uint8Array(zlib.zstdCompressSync(bytes));
}

function headerOf(path: string, size: number, mtime: number): Uint8Array {
  const header = new Uint8Array(BLOCK);
  const put = (text: string, at: number) => header.set(encoder.encode(text), at);
  const octal = (value: number, digits: number) => value.toString(8).padStart(digits, "0");
  put(path, 0);
  put(octal(0o600, 7), 100);
  put(octal(0, 7), 108);
  put(octal(0, 7), 116);
  put(octal(size, 11), 124);
  put(octal(mtime, 11), 136);
  put("        ", 148);
  put("0", 156);
  put("ustar\x0000", 257);
  put(octal(header.reduce((sum, byte) => sum + byte, 0), 6) + "\0 ", 148);
  return header;
}
