/**
 * The manifest of a snapshot: a header line, then a line for each entry. Written once, whole or not at all.
 */
import { basename } from "node:path";
import { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { hashOf } from "./objects.ts";
import { SnapshotInfo } from "./schema.ts";
import { type Entry, lineOf, objectOfLine, parseLine } from "./entry.ts";
import type { Pace } from "./pace.ts";

const Header = SnapshotInfo.omit({ blake3: true }).extend({
  version: z.literal(1),
  b3: z.string().describe("BLAKE3 of all that follows the first line"),
});

const ID = /^s[0-9a-f]{8}$/;

export function isSnapshotId(text: string): boolean {
  return ID.test(text);
}

export function newSnapshotId(): string {
  return `s${crypto.getRandomValues(new Uint8Array(4)).toHex()}`;
}

/** @returns the info with the hash of the entries */
export async function writeManifest(
  path: string,
  info: Omit<SnapshotInfo, "blake3">,
  entries: Iterable<Entry>,
  pace: Pace,
): Promise<SnapshotInfo> {
  const lines: string[] = [];
  for (const entry of entries) {
    lines.push(lineOf(entry));
    const turn = pace.tick();
    if (turn) await turn;
  }
  const body = lines.length === 0 ? "" : lines.join("\n") + "\n";
  const b3 = hashOf(new TextEncoder().encode(body));
  const header: z.infer<typeof Header> = { version: 1, b3, ...info };
  await writeAtomic(path, `${JSON.stringify(header)}\n${body}`);
  return { ...info, blake3: b3 };
}

/** @throws {SbxError} `snapshot.damaged` */
export async function readManifest(
  path: string,
  pace: Pace,
): Promise<{ info: SnapshotInfo; entries: Map<string, Entry> }> {
  const { info, body } = await readParts(path);
  if (hashOf(new TextEncoder().encode(body)) !== info.blake3) throw damaged(path);
  const entries = new Map<string, Entry>();
  for (const line of linesOf(body)) {
    const entry = parseLine(line);
    entries.set(entry.path, entry);
    const turn = pace.tick();
    if (turn) await turn;
  }
  return { info, entries };
}

/** Adds the names of all objects that a manifest needs. */
export async function collectObjects(path: string, into: Set<string>, pace: Pace): Promise<void> {
  const { body } = await readParts(path);
  for (const line of linesOf(body)) {
    const object = objectOfLine(line);
    if (object) into.add(object);
    const turn = pace.tick();
    if (turn) await turn;
  }
}

/** Most `bytes` of a header line: labels and paths in it are short. */
const HEADER_BYTES = 256 * 1024;

/** The header alone. @throws {SbxError} `snapshot.damaged` */
export async function readInfo(path: string): Promise<SnapshotInfo> {
  using file = await Deno.open(path);
  const buffer = new Uint8Array(HEADER_BYTES);
  let size = 0;
  while (size < buffer.length && !buffer.subarray(0, size).includes(10)) {
    const count = await file.read(buffer.subarray(size, Math.min(buffer.length, size + 16 * 1024)));
    if (count === null) break;
    size += count;
  }
  const end = buffer.indexOf(10);
  if (end < 0) throw damaged(path);
  return headerOf(new TextDecoder().decode(buffer.subarray(0, end)), path);
}

async function readParts(path: string): Promise<{ info: SnapshotInfo; body: string }> {
  const text = await Deno.readTextFile(path);
  const end = text.indexOf("\n");
  if (end < 0) throw damaged(path);
  return { info: headerOf(text.slice(0, end), path), body: text.slice(end + 1) };
}

function headerOf(line: string, path: string): SnapshotInfo {
  try {
    const { version: _, b3, ...info } = Header.parse(JSON.parse(line));
    return { ...info, blake3: b3 };
  } catch (cause) {
    throw damaged(path, cause);
  }
}

function* linesOf(body: string): Generator<string> {
  for (let at = 0; at < body.length;) {
    const end = body.indexOf("\n", at);
    yield body.slice(at, end);
    at = end + 1;
  }
}

function damaged(path: string, cause?: unknown): SbxError {
  return new SbxError("snapshot.damaged", `the snapshot ${basename(path, ".manifest")} is damaged`, {
    cause,
    hint: "sbx snapshots delete NAME ID removes it; choose another one",
  });
}
