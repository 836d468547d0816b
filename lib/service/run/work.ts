/**
 * A VM's work on the imported files: shown piece by piece, taken in part, and asked about before the VM is
 * deleted (docs/design/contracts/02-http.md §2, "Work").
 */
import { dirname, join } from "node:path";
import type {
  RepositoryBring,
  RepositoryBrought,
  WorkPatch,
  WorkTake,
  WorkTaken,
  WorkView,
} from "../../client/api/mod.ts";
import { silent } from "../../base/progress/mod.ts";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import {
  bringIn,
  changesOf,
  type Entry,
  entryOf,
  type FileChange,
  fromLatin1,
  type Hunk,
  hunksOf,
  noteUntaken,
  patchOfFile,
  pullAccepted,
  requireRepository,
  returning,
  Room,
  shown,
  textOf,
  type UnitWork,
  untakenOf,
  wholePatchOf,
  Work,
} from "../../repo/mod.ts";
import type { Vm } from "../vm/vm.ts";
import { VmGuest } from "./vm_guest.ts";
import { count } from "../../base/text/mod.ts";

/** Changed files of an answer, and the files whose pieces are shown; the others can be taken whole. */
const FILES_LISTED = 5000;
const FILES_SHOWN = 500;
/** Most `characters` of diffs in one answer. */
const CHARS_SHOWN = 4 * 1024 * 1024;

/** Most `bytes` of one file's diff that are read to be shown. */
const DIFF_BYTES = 1024 * 1024;

type UnitView = WorkView["units"][number];
type FileView = UnitView["files"][number];

/**
 * A running VM's changes.
 *
 * @throws {SbxError} `repo.none`: nothing imported; `repo.*` of {@linkcode Work.collect}; `vm.wrong_state`
 */
export async function readWork(vm: Vm): Promise<WorkView> {
  await using work = await collectWork(vm, { isLook: true });
  const room = { files: FILES_SHOWN, chars: CHARS_SHOWN };
  const units: UnitView[] = [];
  for (const unit of work.units) units.push(await viewOf(unit, room));
  const [{ dir, place }] = returning(work.record);
  return { dir, place, branch: `sbx/${work.vm}`, units };
}

/**
 * A running VM's changes as patches, one for each unit.
 *
 * @throws {SbxError} as {@linkcode readWork}; `repo.too_large`
 */
export async function readPatch(vm: Vm): Promise<WorkPatch> {
  await using work = await collectWork(vm, { isLook: true });
  const units: WorkPatch["units"] = [];
  for (const unit of work.units) {
    // One character a byte.
    const patch = fromLatin1(await wholePatchOf(unit)).toBase64();
    units.push({ repository: unit.source.name, dir: unit.dir, path: unit.unit.path, patch });
  }
  return { units };
}

/**
 * Brings a folder of this host into a running VM, as `sbx push` does.
 *
 * @throws {SbxError} `repo.*` of {@linkcode bringIn}
 */
export async function bringFolder(
  vm: Vm,
  { dir, place, with_secrets, is_read_only }: RepositoryBring,
): Promise<RepositoryBrought> {
  return await bringIn(new VmGuest(vm), {
    dir,
    place,
    room: vm.paths.repository,
    withSecrets: with_secrets,
    isReadOnly: is_read_only,
    allowsPlain: true,
    progress: silent,
  });
}

/**
 * Takes chosen files and pieces, as `sbx review` does: in a repository as one commit on a branch, else into
 * the folder.
 *
 * @throws {SbxError} `repo.changed`: the VM's files differ from the ones shown; `repo.no_change`; `repo.*` of
 * `sbx pull`
 */
export async function takeWork(vm: Vm, { units, branch, message }: WorkTake): Promise<WorkTaken> {
  await using work = await collectWork(vm);
  if (branch !== undefined) requireRepository(work, "a branch");
  if (message !== undefined) requireRepository(work, "a message");
  const accepted = new Map<UnitWork, Entry[]>();
  for (const { repository = work.units[0].source.name, path, tree, files } of units) {
    const unit = work.units.find((each) => each.source.name === repository && each.unit.path === path);
    if (!unit || accepted.has(unit)) {
      throw noChange(`"${path}" of "${repository}" is not part of the imported files`);
    }
    if (await treeOf(unit) !== tree) {
      throw new SbxError("repo.changed", `the files in "${work.vm}" have changed since they were shown`, {
        hint: "read the changes again, and repeat your choice",
      });
    }
    accepted.set(unit, await entriesOf(unit, files));
  }
  const { branches, folder } = await pullAccepted(work, accepted, { branch, message });
  await noteUntaken(work);
  return { branches, ...(folder && { folder }) };
}

/** Work of a running VM. @throws {SbxError} `repo.*` of {@linkcode Work.collect} */
async function collectWork(vm: Vm, options?: { isLook: boolean }): Promise<Work> {
  // Beside the VM's record, as for `sbx pull`.
  return await Work.collect(new VmGuest(vm, options), join(dirname(vm.paths.workspace), "repository"));
}

/** The guest makes a new commit of the same files each time. */
async function treeOf({ store: { git }, tip }: UnitWork): Promise<string> {
  return await git.text(["rev-parse", `${tip}^{tree}`]);
}

async function viewOf(unit: UnitWork, room: { files: number; chars: number }): Promise<UnitView> {
  const { commits, files: changed } = await changesOf(unit);
  const files: FileView[] = [];
  for (const change of changed.slice(0, FILES_LISTED)) {
    files.push(await fileOf(unit, change, room));
  }
  const { path, is_repository } = unit.unit;
  const { name: repository } = unit.source;
  const tree = await treeOf(unit);
  return {
    repository,
    dir: unit.dir,
    path,
    is_repository,
    tree,
    commits,
    files,
    files_count: changed.length,
  };
}

async function fileOf(
  unit: UnitWork,
  change: FileChange,
  room: { files: number; chars: number },
): Promise<FileView> {
  const { path, status, added, removed, new_mode, notable_by } = change;
  const view = {
    path: shown(path),
    status,
    ...added !== undefined && { added, removed },
    ...new_mode !== undefined && { mode: new_mode },
    notable: notable_by !== undefined,
    ...notable_by !== undefined && { notable_by },
    hunks: [],
    is_cut: true,
  };
  if (room.files-- <= 0 || room.chars <= 0) return view;
  const diff = await diffOf(unit, change);
  if (!diff) return view;
  const { hunks, text } = diff;
  const pieces = hunks.map(({ lines }) => ({ lines: lines.map(lineText) }));
  const chars = pieces.reduce((sum, { lines }) => lines.reduce((all, line) => all + line.length, sum), 0);
  if (chars + text.length > room.chars) return view;
  room.chars -= chars + text.length;
  return { ...view, hunks: pieces, ...hunks.length === 0 && { text }, is_cut: false };
}

/** Pieces of a file, or the diff of one that is taken whole; `undefined` for a diff too long to read. */
async function diffOf(
  unit: UnitWork,
  change: FileChange,
): Promise<{ hunks: Hunk[]; text: string } | undefined> {
  try {
    const hunks = await hunksOf(unit, change, DIFF_BYTES);
    if (hunks.length > 0) return { hunks, text: "" };
    return { hunks, text: plain(textOf(await patchOfFile(unit, change, DIFF_BYTES)), true) };
  } catch (error) {
    // One file of a guest must not hide the others.
    if (error instanceof SbxError && error.code === "repo.too_large") return undefined;
    throw error;
  }
}

const lineText = (line: string) => plain(textOf(line), true);

async function entriesOf(unit: UnitWork, chosen: WorkTake["units"][number]["files"]): Promise<Entry[]> {
  const { files } = await changesOf(unit);
  const entries = new Map<number, Entry>();
  for (const { file, hunks } of chosen) {
    const change = files[file];
    if (!change || entries.has(file)) {
      throw noChange(`there is no changed file ${file}, or it is named twice`);
    }
    entries.set(file, await entryOf(unit, change, hunks ? await piecesOf(unit, change, hunks) : "all"));
  }
  return [...entries.values()];
}

/** The named pieces, in their order. */
async function piecesOf(unit: UnitWork, change: FileChange, numbers: number[]): Promise<Hunk[] | "all"> {
  const all = await hunksOf(unit, change);
  const wanted = new Set(numbers);
  if (all.length === 0 || numbers.some((number) => number >= all.length)) {
    throw noChange(`"${shown(change.path)}" has no such piece`);
  }
  return wanted.size === all.length ? "all" : all.filter((_, at) => wanted.has(at));
}

function noChange(message: string): SbxError {
  return new SbxError("repo.no_change", message, { hint: "look at the changes again: GET /vms/{id}/work" });
}

/**
 * Refuses if a pull would bring anything, and if that is unknown: the VM is not running, or its guest does
 * not answer. A VM without imported files, or with the person's own folder, has nothing to be pulled.
 *
 * @throws {SbxError} `vm.unlanded`
 */
export async function requireLanded(vm: Vm): Promise<void> {
  const { name } = vm.record;
  const found = await new Room(vm.paths.repository).read().catch((error) => error as SbxError);
  if (found instanceof Error) throw unseen(name, found.message, found);
  const sources = found ? returning(found).filter(({ is_live }) => !is_live) : [];
  if (sources.length === 0) return;
  const { state } = vm.state;
  if (state !== "Running") {
    throw unseen(
      name,
      `it is ${state}`,
      undefined,
      `sbx ${state === "Paused" ? "resume" : "start"} ${name}, then `,
    );
  }
  try {
    await using work = await collectWork(vm);
    await noteUntaken(work);
    const copies = work.units.filter(({ source }) => !source.is_live);
    const left = await Promise.all(copies.map(untakenOf));
    const [commits, files] = (["commits", "files"] as const).map((what) =>
      left.reduce((sum, each) => sum + each[what], 0)
    );
    if (commits + files === 0) return;
    const dirs = copies.filter((_, at) => left[at].commits + left[at].files > 0).map(({ dir }) => dir);
    const parts = [commits > 0 && count(commits, "commit"), files > 0 && count(files, "changed file")];
    throw new SbxError(
      "vm.unlanded",
      `"${name}" has work on ${dirs.join(", ")} that was not pulled: ${parts.filter(Boolean).join(", ")}`,
      { hint: `sbx diff ${name} shows it, sbx pull ${name} takes it; ${deleteHint(name)}` },
    );
  } catch (error) {
    if (error instanceof SbxError && error.code === "vm.unlanded") throw error;
    const { message } = asSbxError(error, `reading the work of ${name}`);
    throw unseen(name, message, error);
  }
}

function unseen(name: string, why: string, cause?: unknown, first = ""): SbxError {
  return new SbxError("vm.unlanded", `whether all work of "${name}" was pulled cannot be seen: ${why}`, {
    cause,
    hint: `${first}sbx diff ${name} shows its work, sbx pull ${name} takes it; ${deleteHint(name)}`,
  });
}

function deleteHint(name: string): string {
  return `sbx delete --force ${name} deletes it all the same`;
}
