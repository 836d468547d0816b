/** One entry of a cpio archive. */
export type CpioEntry =
  | { path: string; kind: "directory"; mode?: number }
  | { path: string; kind: "file"; data: Uint8Array; mode?: number }
  | { path: string; kind: "character"; major: number; minor: number; mode?: number };

const TYPE_BITS = { directory: 0o040000, file: 0o100000, character: 0o020000 };
const DEFAULT_MODE = { directory: 0o755, file: 0o644, character: 0o600 };
const TRAILER = "TRAILER!!!";

/**
 * Encodes a newc cpio archive, the format the kernel unpacks as its first root file system (Linux,
 * Documentation/driver-api/early-userspace/buffer-format.rst). Owners are root and times are zero, so that
 * the same entries give the same bytes. Entries keep their order: list a folder before its content.
 */
export function encodeCpio(entries: CpioEntry[]): Uint8Array<ArrayBuffer> {
  const parts = [
    ...entries.map((entry, at) => encodeEntry(entry, at + 1)),
    encodeHeader(TRAILER, { links: 1 }),
  ];
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function encodeEntry(entry: CpioEntry, inode: number): Uint8Array {
  const mode = TYPE_BITS[entry.kind] | (entry.mode ?? DEFAULT_MODE[entry.kind]);
  const data = entry.kind === "file" ? entry.data : new Uint8Array();
  const device = entry.kind === "character" ? { major: entry.major, minor: entry.minor } : {};
  const links = entry.kind === "directory" ? 2 : 1;
  const header = encodeHeader(entry.path, { inode, mode, links, size: data.length, ...device });
  const out = new Uint8Array(align(header.length + data.length));
  out.set(header);
  out.set(data, header.length);
  return out;
}

interface HeaderFields {
  inode?: number;
  mode?: number;
  links: number;
  size?: number;
  major?: number;
  minor?: number;
}

/** Encodes magic, thirteen fields of eight hex digits, and the name with a NUL, padded to four bytes. */
function encodeHeader(
  name: string,
  { inode = 0, mode = 0, links, size = 0, major = 0, minor = 0 }: HeaderFields,
): Uint8Array {
  const encoded = new TextEncoder().encode(`${name}\0`);
  const fields = [inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, encoded.length, 0];
  const hex = fields.map((field) => field.toString(16).toUpperCase().padStart(8, "0")).join("");
  const out = new Uint8Array(align(110 + encoded.length));
  out.set(new TextEncoder().encode(`070701${hex}`));
  out.set(encoded, 110);
  return out;
}

const align = (size: number) => (size + 3) & ~3;
