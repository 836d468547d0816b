/** Changes piece by piece, and entries made of the accepted ones. */
import { type FileChange, patchOfFile } from "./changes.ts";
import { fromLatin1, latin1 } from "./text.ts";
import { OBJECT_MAX } from "./limit.ts";
import type { Entry } from "./land.ts";
import { ObjectReader } from "./object.ts";
import type { UnitWork } from "./work.ts";

/** One piece of a changed file. */
export interface Hunk {
  /** number of the first line that it replaces, from 0 */
  start: number;
  /** number of lines that it replaces */
  length: number;
  /** lines of the diff, its `@@` line first, as `latin1` */
  lines: string[];
}

/** Modes of files with lines. */
const FILE = /^100/;

/**
 * Hunks of a changed file; none for one taken whole: added, deleted, binary, a link, a submodule, a non-UTF-8
 * name.
 *
 * @throws {SbxError} `repo.too_large`: its diff has more than `limit` `bytes`
 */
export async function hunksOf(work: UnitWork, change: FileChange, limit?: number): Promise<Hunk[]> {
  const isText = change.added !== undefined && FILE.test(change.old_mode ?? "") &&
    FILE.test(change.new_mode ?? "");
  return isText ? parseHunks(await patchOfFile(work, change, limit)) : [];
}

/** Hunks of the diff of one file. */
export function parseHunks(patch: string): Hunk[] {
  const hunks: Hunk[] = [];
  for (const line of patch.split("\n")) {
    const [, start, length = "1"] = /^@@ -(\d+)(?:,(\d+))? \+\d+(?:,\d+)? @@/.exec(line) ?? [];
    if (start !== undefined) {
      hunks.push({ start: Number(start) - (length === "0" ? 0 : 1), length: Number(length), lines: [line] });
    } else if (/^[-+ \\]/.test(line)) hunks.at(-1)?.lines.push(line);
  }
  return hunks;
}

/**
 * The text with some of its hunks applied.
 *
 * @param text as `latin1`
 * @param hunks in their order
 */
export function applyHunks(text: string, hunks: Hunk[]): string {
  const lines = text.match(/[^\n]*\n|[^\n]+$/g) ?? [];
  const result: string[] = [];
  let at = 0;
  for (const { start, length, lines: pieces } of hunks) {
    result.push(...lines.slice(at, start));
    for (const [index, piece] of pieces.entries()) {
      if (piece[0] !== "+" && piece[0] !== " ") continue;
      result.push(piece.slice(1) + (pieces[index + 1]?.startsWith("\\") ? "" : "\n"));
    }
    at = start + length;
  }
  return [...result, ...lines.slice(at)].join("");
}

/**
 * The entry of a file with some of its hunks accepted.
 *
 * @param accepted "all", or some of {@linkcode hunksOf}
 */
export async function entryOf(work: UnitWork, change: FileChange, accepted: Hunk[] | "all"): Promise<Entry> {
  const { path, status, new_mode, new_id, old_id } = change;
  if (accepted === "all") {
    return { path, ...status !== "deleted" && { object: { mode: new_mode!, id: new_id } } };
  }
  using reader = new ObjectReader(work.store.git);
  const before = latin1((await reader.read(old_id, OBJECT_MAX)).bytes);
  const input = fromLatin1(applyHunks(before, accepted));
  const id = await work.store.git.text(["hash-object", "-w", "--stdin", "--no-filters"], { input });
  return { path, object: { mode: new_mode!, id } };
}
