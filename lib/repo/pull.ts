/** The work of a VM into the folder of the person. */
import { SbxError } from "../base/error/mod.ts";
import { changesOf, type UnitChanges } from "./changes.ts";
import {
  commitOf,
  entriesOf,
  type Entry,
  type FolderLanded,
  landBranch,
  type Landed,
  landFolder,
} from "./land.ts";
import { shown } from "./text.ts";
import type { UnitWork, Work } from "./work.ts";

export interface PullOptions {
  /** default `sbx/NAME`, and for a part of the work `sbx/NAME-2`, … where that holds something else; repositories only */
  branch?: string;
  /** only these paths, as one commit on the brought-in state */
  paths?: string[];
}

/** Result of a pull. */
export interface Pulled {
  branches: Landed[];
  /** of a folder without a repository */
  folder?: FolderLanded;
  /** the VM changed nothing */
  is_unchanged: boolean;
}

/** Entries that a person accepted, by the path of their unit. */
export type Accepted = ReadonlyMap<string, Entry[]>;

/**
 * Takes all work: the guest's commits plus one for uncommitted changes, or with `paths` one commit of those.
 *
 * @throws {SbxError} errors of {@linkcode landBranch} and {@linkcode landFolder}; `repo.no_change`
 */
export async function pullWork(work: Work, { branch, paths = [] }: PullOptions = {}): Promise<Pulled> {
  if (paths.length > 0) return await pullAccepted(work, await acceptPaths(work, paths), { branch });
  return await land(
    work,
    () => Promise.resolve(branch ?? branchOf(work)),
    async (unit) => unit.unit.is_repository ? unit.tip : await entriesOf(unit, []),
  );
}

/** Takes the changes that a person accepted. */
export async function pullAccepted(
  work: Work,
  accepted: Accepted,
  { branch }: PullOptions = {},
): Promise<Pulled> {
  const name = async (unit: UnitWork, commit: string) =>
    branch ?? await freeBranch(unit, branchOf(work), commit);
  return await land(work, name, async (unit) => {
    const entries = accepted.get(unit.unit.path) ?? [];
    if (entries.length === 0) return undefined;
    return unit.unit.is_repository ? await commitOf(unit, entries, `Work of ${work.vm}`) : entries;
  });
}

/**
 * The changes that {@linkcode pullWork} takes. A pull into a folder makes them the base of later comparisons, so read them
 * first.
 *
 * @throws {SbxError} `repo.no_change`: a path is not among the changes
 */
export async function changesToPull(work: Work, paths: string[] = []): Promise<UnitChanges[]> {
  const changes = await Promise.all(work.units.map(changesOf));
  if (paths.length === 0) return changes;
  const accepted = await acceptPaths(work, paths);
  return changes.map((unit) => {
    const taken = new Set(accepted.get(unit.path)?.map(({ path }) => path));
    const notable = new Set(Array.from(taken, shown));
    return {
      ...unit,
      files: unit.files.filter(({ path }) => taken.has(path)),
      notable: unit.notable.filter((path) => notable.has(path)),
    };
  });
}

async function acceptPaths(work: Work, paths: string[]): Promise<Accepted> {
  const byUnit = new Map<string, string[]>();
  for (const path of paths) {
    const parts = path.split("/").filter((part) => part !== "" && part !== ".");
    if (path.startsWith("/") || parts.includes("..") || parts.length === 0) throw notInside(path);
    const clean = parts.join("/");
    // The innermost: submodules come after their parents.
    const unit = work.units.findLast(({ unit }) => unit.path === "" || clean.startsWith(`${unit.path}/`))!;
    const below = unit.unit.path === "" ? clean : clean.slice(unit.unit.path.length + 1);
    byUnit.set(unit.unit.path, [...byUnit.get(unit.unit.path) ?? [], below]);
  }
  const accepted = new Map<string, Entry[]>();
  for (const unit of work.units) {
    const wanted = byUnit.get(unit.unit.path);
    if (wanted) accepted.set(unit.unit.path, await entriesOf(unit, wanted));
  }
  return accepted;
}

function notInside(path: string): SbxError {
  return new SbxError("repo.no_change", `"${path}" is not inside the work brought in`, {
    hint: "sbx diff NAME --stat shows the paths that changed; without a path everything is taken",
  });
}

const branchOf = ({ vm }: Work) => `sbx/${vm}`;

/** Most names of branches that are tried. */
const NAMES_MAX = 1000;

/** The first of `sbx/NAME`, `sbx/NAME-2`, … that holds nothing which moving it to `commit` would drop. */
async function freeBranch({ person, store }: UnitWork, branch: string, commit: string): Promise<string> {
  for (let number = 1; number <= NAMES_MAX; number++) {
    const name = number === 1 ? branch : `${branch}-${number}`;
    const old = await person.text(["rev-parse", "--verify", "--quiet", `refs/heads/${name}^{commit}`])
      .catch(() => undefined);
    if (old === undefined || await store.git.succeeds(["merge-base", "--is-ancestor", old, commit])) {
      return name;
    }
  }
  return branch;
}

async function land(
  work: Work,
  branch: (unit: UnitWork, commit: string) => Promise<string>,
  what: (unit: UnitWork) => Promise<string | Entry[] | undefined>,
): Promise<Pulled> {
  const pulled: Pulled = { branches: [], is_unchanged: work.units.every(({ isUnchanged }) => isUnchanged) };
  using _lock = await work.room.lock();
  await refresh(work);
  for (const unit of work.units.toReversed()) {
    const found = unit.isUnchanged ? undefined : await what(unit);
    if (typeof found === "string") {
      pulled.branches.unshift(
        await landBranch(unit, found, await branch(unit, found), `sbx: work of ${work.vm}`),
      );
      await work.room.write(work.record);
    } else if (found) {
      pulled.folder = await landFolder(unit, found);
      await adopt(unit, found, pulled.folder);
      await work.room.write(work.record);
    }
  }
  return pulled;
}

/**
 * Rereads the work taken since it was collected.
 *
 * @throws {SbxError} `repo.changed`: the base of comparison has changed
 */
async function refresh({ vm, room, record }: Work): Promise<void> {
  const units = (await room.read())?.units ?? [];
  for (const unit of record.units) {
    const now = units.find(({ path }) => path === unit.path);
    if (now?.work !== unit.work) {
      throw new SbxError("repo.changed", `work of "${vm}" was taken or a folder was brought in meanwhile`, {
        hint: "read the changes again, then choose",
      });
    }
    unit.pulled = now.pulled;
  }
}

/** Makes the content a folder has taken the base for comparing later work. */
async function adopt(work: UnitWork, entries: Entry[], { conflicts }: FolderLanded): Promise<void> {
  const { unit, store, base } = work;
  const landed = entries.filter(({ path }) => !conflicts.includes(shown(path)));
  if (landed.length === 0) return;
  const commit = await commitOf(work, landed, "Pulled");
  if (base !== store) {
    const input = new TextEncoder().encode(`${commit}\n^${unit.work}\n`);
    const pack = store.git.stream(["pack-objects", "--revs", "--stdout", "-q"], { input });
    await base.git.run(["index-pack", "--stdin"], { input: pack });
  }
  await base.git.run(["update-ref", "refs/sbx/work", commit]);
  unit.work = commit;
}

/** @throws {SbxError} `usage.invalid` */
export function requireRepository(work: Work, option: string): void {
  if (work.units[0].unit.is_repository) return;
  throw new SbxError(
    "usage.invalid",
    `${option} needs a git repository; "${work.record.dir}" is a plain folder`,
  );
}
