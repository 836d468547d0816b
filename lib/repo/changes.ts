/** The guest's changes to the work brought in. */
import type { Entry } from "./land.ts";
import { CHANGES_MAX, DIFF_MAX, OBJECT_MAX } from "./limit.ts";
import { notableBy } from "./notable.ts";
import { ObjectReader } from "./object.ts";
import { tooLarge } from "./refusal.ts";
import { exactText, fromLatin1, latin1, shown, splitNul } from "./text.ts";
import type { UnitWork } from "./work.ts";

/** A changed file. */
export interface FileChange {
  /** as `latin1`, below its unit */
  path: string;
  status: "added" | "modified" | "deleted" | "retyped";
  /** modes of git; absent on the side where it is not */
  old_mode?: string;
  new_mode?: string;
  old_id: string;
  new_id: string;
  /** lines; absent for a binary file */
  added?: number;
  removed?: number;
  /** programs of the host that act on it when it is merely there, or at their usual command */
  notable_by?: string;
}

/** A commit of the guest, in its own words. */
export interface CommitLine {
  id: string;
  subject: string;
  author: string;
}

/** Changes of one repository or folder. */
export interface UnitChanges {
  /** name of its source in the VM */
  repository: string;
  /** above its paths for people, as in {@linkcode UnitWork} */
  label: string;
  /** below the folder; "" for that itself */
  path: string;
  base: string;
  tip: string;
  commits: CommitLine[];
  files: FileChange[];
  /** changed files with `notable_by`, as text */
  notable: string[];
}

const STATUS: Record<string, FileChange["status"]> = {
  A: "added",
  M: "modified",
  D: "deleted",
  T: "retyped",
};

/** Options of every diff: neither the person's nor the guest's configuration affects it. */
const DIFF = ["--no-ext-diff", "--no-textconv", "--no-color", "--no-renames", "--ignore-submodules=none"];

/** Summarizes the changes of one unit. */
export async function changesOf(work: UnitWork): Promise<UnitChanges> {
  const { store: { git }, unit, tip, commits } = work;
  const raw = splitNul(
    await git.run(["diff-tree", "-r", "-z", "--raw", "--no-abbrev", ...DIFF, unit.work, tip], {
      limit: DIFF_MAX,
    }),
  );
  if (raw.length / 2 > CHANGES_MAX) throw tooLarge(`more than ${CHANGES_MAX} changed files`);
  const counts = countsOf(
    splitNul(
      await git.run(["diff-tree", "-r", "-z", "--numstat", ...DIFF, unit.work, tip], { limit: DIFF_MAX }),
    ),
  );
  const files: FileChange[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) files.push(changeOf(raw[at], raw[at + 1], counts));
  return {
    repository: work.source.name,
    label: work.label,
    path: unit.path,
    base: unit.work,
    tip,
    commits: await Promise.all(commits.slice(0, COMMITS_SHOWN).map((id) => lineOf(work, id))),
    files,
    notable: files.filter(({ notable_by }) => notable_by !== undefined).map(({ path }) => shown(path)),
  };
}

/** Most commits of a summary; the branch has all. */
const COMMITS_SHOWN = 100;

/**
 * The changes as a unified diff, as `latin1`.
 *
 * @throws {SbxError} `repo.too_large`: more than `limit` `bytes`
 */
export function patchOf(work: UnitWork, limit = DIFF_MAX): Promise<string> {
  return diffTree(work, [], limit);
}

/** As {@linkcode patchOf}, with the bytes of binary files, for git apply. */
export function wholePatchOf(work: UnitWork, limit = DIFF_MAX): Promise<string> {
  return diffTree(work, [], limit, ["--binary"]);
}

/**
 * The diff of one changed file, as `latin1`; empty where its name is not UTF-8, so that
 * git cannot be asked for it alone.
 *
 * @throws {SbxError} `repo.too_large`: more than `limit` `bytes`
 */
export async function patchOfFile(work: UnitWork, { path }: FileChange, limit = DIFF_MAX): Promise<string> {
  const exact = exactText(path);
  return exact === undefined ? "" : await diffTree(work, [exact], limit);
}

async function diffTree(
  { store: { git }, unit, tip }: UnitWork,
  paths: string[],
  limit: number,
  options: string[] = [],
) {
  const args = ["diff-tree", "-r", "-p", "--full-index", ...options, ...DIFF, unit.work, tip, "--", ...paths];
  return latin1(await git.run(args, { limit }));
}

function changeOf(head: string, path: string, counts: Map<string, [string, string]>): FileChange {
  const [oldMode, newMode, oldId, newId, status] = head.slice(1).split(" ");
  const [added, removed] = counts.get(path) ?? [];
  const by = notableBy(path);
  return {
    path,
    status: STATUS[status[0]] ?? "modified",
    ...status[0] !== "A" && { old_mode: oldMode },
    ...status[0] !== "D" && { new_mode: newMode },
    old_id: oldId,
    new_id: newId,
    ...added !== undefined && added !== "-" && { added: Number(added), removed: Number(removed) },
    ...by !== undefined && { notable_by: by },
  };
}

function countsOf(lines: string[]): Map<string, [string, string]> {
  return new Map(lines.map((line) => {
    const [added, removed, ...path] = line.split("\t");
    return [path.join("\t"), [added, removed]];
  }));
}

async function lineOf({ store: { git } }: UnitWork, id: string): Promise<CommitLine> {
  const text = await git.text(["log", "-1", "--format=%s%n%an", id]);
  const [subject, author] = text.split("\n").map((line) => shown(latin1(new TextEncoder().encode(line))));
  return { id, subject, author };
}

// Changes piece by piece, and entries made of the accepted ones.

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
