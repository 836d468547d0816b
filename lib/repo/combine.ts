/** Pieces of the work of several VMs that began alike, as one change. */
import { createHash } from "node:crypto";
import { SbxError } from "../base/error/mod.ts";
import { applyHunks, changesOf, type FileChange, type Hunk, hunksOf } from "./changes.ts";
import { above, type Entry } from "./land.ts";
import { OBJECT_MAX } from "./limit.ts";
import { ObjectReader } from "./object.ts";
import type { Accepted, Others } from "./pull.ts";
import { exactText, fromLatin1, latin1, shown } from "./text.ts";
import type { UnitWork, Work } from "./work.ts";

/** Next step where a pick names a piece that has changed. */
const SHOW_AGAIN = "show the pieces again with --pieces, then pick";

/** Mode of a submodule: a commit that another store has. */
const SUBMODULE = "160000";

/** A file of a VM, or some of its pieces. */
export interface Pick {
  vm: string;
  /** as sbx diff shows it */
  path: string;
  /** numbers of its pieces, from 1; absent: all of the file */
  pieces?: number[];
  /** {@linkcode shownId} of the change that was shown; absent: the change as it is now */
  shown?: string;
}

/** A file that a VM changed. */
interface Changed {
  vm: string;
  unit: UnitWork;
  change: FileChange;
}

/** The change of one VM to a file, or some of its pieces. */
interface Part extends Changed {
  /** absent: the file as the VM has it */
  hunks?: Hunk[];
}

/**
 * The picked pieces as changes of the first VM's work, which {@linkcode pullAccepted} takes.
 *
 * @throws {SbxError} `repo.no_change`: there is no such file or piece; `repo.diverged`: the VMs began
 * with other files; `repo.overlap`: two pieces change the same lines; `repo.changed`: the VM changed the file
 * since it was shown
 */
export async function combine(
  works: readonly Work[],
  picks: readonly Pick[],
): Promise<{ accepted: Accepted; others: Others }> {
  const [target] = works;
  const changes: Changed[] = [];
  for (const work of works) changes.push(...await changesIn(work));
  const parts = new Map<UnitWork, Map<string, Part[]>>();
  const others = new Map<UnitWork, string[]>();
  for (const pick of picks) {
    const { vm, pieces } = pick;
    const found = findChange(changes, pick);
    const into = await unitIn(target, found);
    if (vm !== target.vm) others.set(into, [...new Set([...others.get(into) ?? [], vm])]);
    const files = parts.get(into) ?? new Map<string, Part[]>();
    parts.set(into, files);
    const ofFile = files.get(found.change.path) ?? [];
    files.set(found.change.path, [...ofFile, {
      ...found,
      ...pieces && { hunks: await pickedPieces(found, pick.path, pieces) },
    }]);
  }
  const accepted = new Map<UnitWork, Entry[]>();
  for (const [unit, files] of parts) {
    const entries: Entry[] = [];
    for (const [path, all] of files) entries.push(await entryOfParts(unit, path, all));
    requireApart(entries);
    accepted.set(unit, entries);
  }
  return { accepted, others };
}

async function changesIn({ vm, units }: Work): Promise<Changed[]> {
  const changes = await Promise.all(
    units.map(async (unit) => (await changesOf(unit)).files.map((change) => ({ vm, unit, change }))),
  );
  return changes.flat();
}

/** @throws {SbxError} `repo.no_change`, `repo.changed` */
function findChange(changes: readonly Changed[], { vm, path, shown: id }: Pick): Changed {
  const found = changes.find((each) => each.vm === vm && nameOf(each.unit, each.change) === path);
  if (!found) throw noChange(`"${vm}" did not change "${path}"`, vm);
  if (id === undefined || shownId(found.change) === id) return found;
  throw new SbxError("repo.changed", `"${vm}" changed "${path}" since it was shown`, { hint: SHOW_AGAIN });
}

/** The unit of the first VM's work that began like a change's own. @throws {SbxError} `repo.diverged` */
async function unitIn(target: Work, { vm, unit: from }: Changed): Promise<UnitWork> {
  const into = target.units.find(({ source, unit }) =>
    source.name === from.source.name && unit.path === from.unit.path
  );
  if (into && into.dir === from.dir && await baseOf(into) === await baseOf(from)) return into;
  throw new SbxError("repo.diverged", `"${vm}" and "${target.vm}" did not begin with the same files`, {
    hint: `sbx pull ${vm} takes its work as a branch of its own`,
  });
}

/** Hexadecimal digits of a {@linkcode shownId}. */
export const SHOWN_ID_LENGTH = 16;

/** Name of a change with all that its pieces and their numbers come from. */
export function shownId({ old_id, old_mode, new_id, new_mode }: FileChange): string {
  const text = [old_id, old_mode, new_id, new_mode].join(" ");
  return createHash("sha256").update(text).digest("hex").slice(0, SHOWN_ID_LENGTH);
}

/**
 * The pieces of a file that can be picked, without the lines around them; none for one that is taken whole.
 */
export async function piecesOf(unit: UnitWork, change: FileChange): Promise<Hunk[]> {
  return (await hunksOf(unit, change)).flatMap(splitHunk);
}

async function pickedPieces(
  { vm, unit, change }: Changed,
  path: string,
  numbers: readonly number[],
): Promise<Hunk[]> {
  const all = await piecesOf(unit, change);
  const missing = numbers.find((number) => all[number - 1] === undefined);
  if (missing === undefined) return numbers.map((number) => all[number - 1]);
  if (all.length === 0) throw noChange(`"${path}" of "${vm}" has no pieces: it is taken whole`, vm);
  throw new SbxError(
    "repo.no_change",
    `"${path}" of "${vm}" has the pieces 1 to ${all.length}, and no ${missing}`,
    { hint: SHOW_AGAIN },
  );
}

async function entryOfParts(into: UnitWork, path: string, parts: readonly Part[]): Promise<Entry> {
  const whole = parts.find(({ hunks }) => hunks === undefined);
  if (
    whole &&
    parts.some(({ change: { new_id, new_mode } }) =>
      new_id !== whole.change.new_id || new_mode !== whole.change.new_mode
    )
  ) throw overlap(path);
  const [{ change: { old_id, new_mode } }] = parts;
  if (whole) {
    const { status, new_id } = whole.change;
    if (status === "deleted") return { path };
    if (new_mode === SUBMODULE) {
      throw noChange(`"${path}" is a submodule: --pick takes files`, whole.vm);
    }
    return { path, object: { mode: new_mode!, id: await copyContent(whole.unit, into, new_id) } };
  }
  const hunks = parts.flatMap(({ hunks = [] }) => hunks).sort((one, other) => one.start - other.start);
  const distinct = hunks.filter((hunk, at) => at === 0 || !isSame(hunk, hunks[at - 1]));
  for (const [at, hunk] of distinct.entries()) {
    const before = distinct[at - 1];
    if (!before) continue;
    // Text behind a last line without its end would join that line.
    const endsFile = before.lines.at(-1)!.startsWith("\\");
    if (endsFile || hunk.start < before.start + before.length || hunk.start === before.start) {
      throw overlap(path);
    }
  }
  if (parts.some(({ change }) => change.new_mode !== new_mode)) throw overlap(path);
  using reader = new ObjectReader(into.store.git);
  const before = latin1((await reader.read(old_id, OBJECT_MAX)).bytes);
  return {
    path,
    object: { mode: new_mode!, id: await write(into, fromLatin1(applyHunks(before, distinct))) },
  };
}

/**
 * No file may be a folder of another: git's index would drop one of them.
 * @throws {SbxError} `repo.overlap`
 */
function requireApart(entries: readonly Entry[]): void {
  const files = new Set(entries.flatMap(({ path, object }) => object ? [path] : []));
  for (const path of files) {
    const folder = above(path).find((each) => files.has(each));
    if (folder === undefined) continue;
    throw new SbxError(
      "repo.overlap",
      `"${shown(folder)}" is a file in one of the picks, and a folder in another`,
      { hint: "pick one of them" },
    );
  }
}

/** Copies a file's content from one VM's store to another's. @returns its id */
async function copyContent(from: UnitWork, to: UnitWork, id: string): Promise<string> {
  if (from === to) return id;
  using reader = new ObjectReader(from.store.git);
  return await write(to, (await reader.read(id, OBJECT_MAX)).bytes);
}

async function write({ store: { git } }: UnitWork, input: Uint8Array): Promise<string> {
  return await git.text(["hash-object", "-w", "--stdin", "--no-filters"], { input });
}

async function baseOf({ store: { git }, unit: { work } }: UnitWork): Promise<string> {
  return await git.text(["rev-parse", `${work}^{tree}`]);
}

function nameOf({ label }: UnitWork, { path }: FileChange): string | undefined {
  const exact = exactText(path);
  return exact === undefined || label === "" ? exact : `${label}/${exact}`;
}

/** The changes of a hunk, without the lines that stay: pieces of two VMs may stand close to each other. */
export function splitHunk({ start, lines: [head, ...lines] }: Hunk): Hunk[] {
  const pieces: Hunk[] = [];
  let at = start;
  let open: Hunk | undefined;
  for (const line of lines) {
    if (line.startsWith(" ")) {
      open = undefined;
      at++;
    } else if (line.startsWith("\\")) open?.lines.push(line);
    else {
      if (!open) pieces.push(open = { start: at, length: 0, lines: [head] });
      open.lines.push(line);
      if (line.startsWith("-")) {
        open.length++;
        at++;
      }
    }
  }
  return pieces;
}

function isSame(one: Hunk, other: Hunk): boolean {
  return one.start === other.start && one.length === other.length &&
    one.lines.slice(1).join("\n") === other.lines.slice(1).join("\n");
}

function overlap(path: string): SbxError {
  return new SbxError("repo.overlap", `two of the picked pieces of "${shown(path)}" change the same lines`, {
    hint: "pick one of them",
  });
}

function noChange(message: string, vm: string): SbxError {
  return new SbxError("repo.no_change", message, { hint: `sbx diff ${vm} shows its changes` });
}
