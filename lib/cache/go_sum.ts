/**
 * Go's checksums of modules, "h1" of golang.org/x/mod/sumdb/dirhash: the SHA-256 of a list with the SHA-256
 * and the name of each file. The archive comes from a stranger, so it is read within limits.
 */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";
import { promisify } from "node:util";
import { inflateRaw } from "node:zlib";
import { algorithmOf, type Digest } from "./digest.ts";

/** Longest file of a module, and longest list of its files, in `bytes`; a module with more is not kept. */
const FILE_MAX = 64 * 1024 * 1024;
const LIST_MAX = 16 * 1024 * 1024;
/** Longest module with all its files, in `bytes`: Go's own limit. */
const MODULE_MAX = 500 * 1024 * 1024;

const END = 0x06054b50, ENTRY = 0x02014b50, LOCAL = 0x04034b50;
const [END_SIZE, ENTRY_SIZE, LOCAL_SIZE] = [22, 46, 30];
/** Longest comment of an archive, in `bytes`. */
const COMMENT_MAX = 0xffff;

const inflate = promisify(inflateRaw) as (bytes: Uint8Array, options: object) => Promise<Uint8Array>;

/** A checksum as go.sum has it. */
export interface GoSum {
  /** base64 */
  h1: string;
  /** of go.mod alone, not of the module's archive */
  isMod: boolean;
}

/**
 * Reads the checksum of a module from a list in the form of go.sum.
 * @param version with `/go.mod` behind it for that file
 */
export function readGoSum(text: string, module: string, version: string): GoSum | undefined {
  const start = `${module} ${version} h1:`;
  const line = text.split("\n").find((each) => each.startsWith(start));
  const h1 = line?.slice(start.length);
  return h1 !== undefined && /^[A-Za-z0-9+/]{43}=$/.test(h1)
    ? { h1, isMod: version.endsWith("/go.mod") }
    : undefined;
}

/** True if a file has a Go checksum. @param digests of the whole file */
export async function hasGoSum(
  path: string,
  digests: readonly Digest[],
  { h1, isMod }: GoSum,
): Promise<boolean> {
  if (!isMod) return await zipSum(path).catch(() => undefined) === h1;
  const sha256 = digests.find((digest) => algorithmOf(digest) === "sha256");
  return sha256 !== undefined && listSum([[sha256.slice("sha256:".length), "go.mod"]]) === h1;
}

function listSum(files: [hex: string, name: string][]): string {
  const sorted = files.toSorted(([, a], [, b]) => Buffer.compare(Buffer.from(a), Buffer.from(b)));
  return createHash("sha256").update(sorted.map(([hex, name]) => `${hex}  ${name}\n`).join("")).digest(
    "base64",
  );
}

/** The checksum of an archive; `undefined` for one that is damaged or over a limit. */
async function zipSum(path: string): Promise<string | undefined> {
  using file = await Deno.open(path);
  const list = await readList(file);
  if (!list) return undefined;
  const files: [hex: string, name: string][] = [];
  let total = 0;
  for (let at = 0; at < list.length;) {
    const entry = entryAt(list, at);
    if (!entry || (total += entry.size) > MODULE_MAX) return undefined;
    const content = await contentOf(file, entry);
    if (content?.length !== entry.size) return undefined;
    files.push([createHash("sha256").update(content).digest("hex"), entry.name]);
    at = entry.end;
  }
  return listSum(files);
}

interface Entry {
  name: string;
  method: number;
  packed: number;
  size: number;
  offset: number;
  /** offset in the list behind it */
  end: number;
}

/** Reads the list of an archive's files. */
async function readList(file: Deno.FsFile): Promise<Buffer | undefined> {
  const { size } = await file.stat();
  const from = Math.max(0, size - END_SIZE - COMMENT_MAX);
  const tail = await readAt(file, from, size - from);
  for (let at = tail.length - END_SIZE; at >= 0; at--) {
    if (tail.readUInt32LE(at) !== END || at + END_SIZE + tail.readUInt16LE(at + 20) !== tail.length) continue;
    const [length, offset] = [tail.readUInt32LE(at + 12), tail.readUInt32LE(at + 16)];
    return length <= LIST_MAX && offset + length <= from + at
      ? await readAt(file, offset, length)
      : undefined;
  }
  return undefined;
}

function entryAt(list: Buffer, at: number): Entry | undefined {
  if (at + ENTRY_SIZE > list.length || list.readUInt32LE(at) !== ENTRY) return undefined;
  const [nameLength, extraLength, commentLength] = [28, 30, 32].map((each) => list.readUInt16LE(at + each));
  const [packed, size] = [20, 24].map((each) => list.readUInt32LE(at + each));
  const nameEnd = at + ENTRY_SIZE + nameLength;
  const bytes = list.subarray(at + ENTRY_SIZE, nameEnd);
  const name = bytes.toString();
  const isGood = nameEnd <= list.length && !name.includes("\n") && Buffer.from(name).equals(bytes);
  if (!isGood || Math.max(packed, size) > FILE_MAX) return undefined;
  const [method, offset] = [list.readUInt16LE(at + 10), list.readUInt32LE(at + 42)];
  return { name, method, packed, size, offset, end: nameEnd + extraLength + commentLength };
}

async function contentOf(
  file: Deno.FsFile,
  { method, packed, size, offset }: Entry,
): Promise<Uint8Array | undefined> {
  const head = await readAt(file, offset, LOCAL_SIZE);
  if (head.length < LOCAL_SIZE || head.readUInt32LE(0) !== LOCAL) return undefined;
  const start = offset + LOCAL_SIZE + head.readUInt16LE(26) + head.readUInt16LE(28);
  const content = await readAt(file, start, packed);
  if (content.length < packed) return undefined;
  if (method === 0) return content;
  // zlib refuses a limit of 0.
  return method === 8 ? await inflate(content, { maxOutputLength: size + 1 }) : undefined;
}

/** Reads up to `count` bytes. */
async function readAt(file: Deno.FsFile, offset: number, count: number): Promise<Buffer> {
  const bytes = Buffer.alloc(count);
  await file.seek(offset, Deno.SeekMode.Start);
  let at = 0;
  for (let read = await file.read(bytes); read && at < count; read = await file.read(bytes.subarray(at))) {
    at += read;
    if (at === count) break;
  }
  return bytes.subarray(0, at);
}
