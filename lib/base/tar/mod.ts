/** Headers of tar archives (POSIX ustar). */

/** Size of a block, in `bytes`: of a header, and of which content is a multiple. */
export const BLOCK = 512;

/** One entry of an archive. */
export interface TarEntry {
  /** at most 100 bytes */
  name: string;
  /** at most 100 bytes; of a link */
  link?: string;
  /** type flag: `0` a file, `2` a link, `5` a folder, `x` a pax header */
  flag?: string;
  /** permission bits */
  mode: number;
  /** `bytes` of its content */
  size: number;
  /** `s` since 1970 */
  mtime: number;
}

/** The header of an entry that belongs to root. */
export function tarHeader({ name, link = "", flag = "0", mode, size, mtime }: TarEntry): Uint8Array {
  const header = new Uint8Array(BLOCK);
  const put = (text: string, at: number) => header.set(new TextEncoder().encode(text), at);
  const octal = (value: number, digits: number) => Math.max(0, value).toString(8).padStart(digits, "0");
  put(name, 0);
  put(octal(mode, 7), 100);
  put(octal(0, 7), 108);
  put(octal(0, 7), 116);
  put(octal(size, 11), 124);
  put(octal(mtime, 11), 136);
  put(" ".repeat(8), 148);
  put(flag, 156);
  put(link, 157);
  put("ustar\x0000", 257);
  put(`${octal(header.reduce((sum, byte) => sum + byte, 0), 6)}\0 `, 148);
  return header;
}
