/** The work of a VM into the folder of the person. */
import { SbxError } from "../base/error/mod.ts";
import { changesOf, type UnitChanges } from "./changes.ts";
import { Git } from "./git.ts";
import {
  commitOf,
  entriesOf,
  type Entry,
  type FolderLanded,
  landBranch,
  type Landed,
  landFolder,
  planOf,
} from "./land.ts";
import { commitOnto } from "./onto.ts";
import { returning } from "./record.ts";
import { commitTree } from "./snapshot.ts";
import { shown } from "./text.ts";
import { choose, type UnitWork, type Work } from "./work.ts";

export interface PullOptions {
  /**
   * default `sbx/NAME`, and for a part of the work `sbx/NAME-2`, … where that holds
   * something else; repositories only
   */
  branch?: string;
  /**
   * only these paths, as one commit on the brought-in state; where several sources come back, below the name
   * of one, and the name alone is all of it
   */
  paths?: string[];
  /**
   * of the commit that sbx makes: of uncommitted changes, of parts, or of all; the
   * guest's own commits keep theirs
   */
  message?: string;
  /** all work of a repository as one commit, in place of the guest's commits */
  isSquashed?: boolean;
}

/** Result of a pull. */
export interface Pulled {
  branches: Landed[];
  /** of a folder without a repository */
  folder?: FolderLanded;
  /** the VM changed nothing */
  is_unchanged: boolean;
}

/** Entries that a person accepted. */
export type Accepted = ReadonlyMap<UnitWork, Entry[]>;

/** Names of the other VMs that entries of a unit come from. */
export type Others = ReadonlyMap<UnitWork, string[]>;

/**
 * Takes all work: the guest's commits plus one for uncommitted changes, or with `paths` one commit of those.
 *
 * @throws {SbxError} errors of {@linkcode landBranch} and {@linkcode landFolder}; `repo.no_change`
 */
export async function pullWork(work: Work, options: PullOptions = {}): Promise<Pulled> {
  const parts = await acceptPaths(work, options.paths ?? []);
  return await land(work, async (unit) => {
    if (unit.isUnchanged) return undefined;
    const entries = parts.get(unit);
    if (entries) return await partOf(work, unit, entries, options);
    if (!unit.unit.is_repository) return await entriesOf(unit, []);
    const commit = await wholeOf(work, unit, options);
    const held = options.isSquashed ? unit.commits[0] : undefined;
    const name = await branchOf(work, unit, options.branch);
    // Only the branch has the pieces of other VMs: it stays.
    const isJoined = options.branch === undefined && unit.unit.joined?.[name] !== undefined;
    const branch = isJoined ? await freeBranch(unit, name, commit, isReplaceable) : name;
    return { commit, held, branch };
  });
}

/**
 * Takes the changes that a person accepted: in a repository as one commit on top of earlier ones, or where
 * that does not go, on a branch of its own.
 */
export async function pullAccepted(
  work: Work,
  accepted: Accepted,
  { others, ...options }: Pick<PullOptions, "branch" | "message"> & { others?: Others } = {},
): Promise<Pulled> {
  return await land(work, async (unit) => {
    // Of a unit that this VM did not change they are another VM's.
    const entries = accepted.get(unit) ?? [];
    const taken = await furtherPartOf(work, unit, entries, options) ??
      await partOf(work, unit, entries, options);
    if (!taken || Array.isArray(taken)) return taken;
    const joined = [...new Set([...taken.joined ?? [], ...others?.get(unit) ?? []])];
    return { ...taken, ...joined.length > 0 && { joined } };
  });
}

/** A commit for a branch of a repository, or entries for a folder. */
type Taken = {
  commit: string;
  branch: string;
  /** newest commit of the guest that the one commit stands for */
  held?: string;
  /** other VMs that it has work of */
  joined?: string[];
} | Entry[];

/** All work of a repository: the guest's commits, and a commit of sbx where there is one to be made. */
async function wholeOf(work: Work, unit: UnitWork, { message, isSquashed }: PullOptions): Promise<string> {
  const { store: { git }, tip, unit: { head, work: base }, hasUncommitted } = unit;
  if (!isSquashed && (message === undefined || !hasUncommitted)) return tip;
  const tree = await git.text(["rev-parse", `${tip}^{tree}`]);
  const above = isSquashed ? [head ?? base] : (await git.text(["rev-parse", `${tip}^@`])).split("\n");
  return await commitTree(git, tree, above, message ?? `Work of ${work.vm}`, await authorOf(unit));
}

/** Some entries of a unit, of a repository as a commit. @returns undefined: none of them */
async function partOf(
  work: Work,
  unit: UnitWork,
  entries: Entry[],
  { branch, message }: PullOptions,
): Promise<Taken | undefined> {
  if (entries.length === 0) return undefined;
  if (!unit.unit.is_repository) return entries;
  const commit = message === undefined
    ? await commitOf(unit, entries, `Work of ${work.vm}`)
    : await commitOf(unit, entries, message, { env: await authorOf(unit) });
  const name = await branchOf(work, unit, branch);
  return { commit, branch: branch === undefined ? await freeBranch(unit, name, commit) : name };
}

/**
 * Some entries of a repository, on top of the branch of earlier ones.
 * @returns undefined where they do not go there
 */
async function furtherPartOf(
  work: Work,
  unit: UnitWork,
  entries: Entry[],
  { branch: wanted, message }: PullOptions,
): Promise<Taken | undefined> {
  if (entries.length === 0 || !unit.unit.is_repository) return undefined;
  const branch = await branchOf(work, unit, wanted);
  const env = message === undefined ? undefined : await authorOf(unit);
  const commit = await commitOnto(unit, branch, entries, message ?? `Work of ${work.vm}`, env);
  if (commit === undefined) return undefined;
  // The branch keeps the commits that it stands for, and the pieces of other VMs.
  const { squashed, joined } = unit.unit;
  return { commit, branch, held: squashed?.[branch], joined: joined?.[branch] };
}

/** A commit that a person words is theirs, of now. */
async function authorOf({ person }: UnitWork): Promise<Record<string, string>> {
  const [name, email] = await Promise.all(
    ["user.name", "user.email"].map((key) => person.text(["config", key]).catch(() => "")),
  );
  if (name === "" || email === "") return {};
  return {
    GIT_AUTHOR_NAME: name,
    GIT_AUTHOR_EMAIL: email,
    GIT_COMMITTER_NAME: name,
    GIT_COMMITTER_EMAIL: email,
  };
}

/** Most paths that an error names. */
const PATHS_NAMED = 10;

/**
 * Gives the work to the files of the person, without a commit. Their index and branches stay.
 *
 * @param paths as of {@linkcode pullWork}
 * @throws {SbxError} `repo.would_overwrite`: files that the person changed too;
 * nothing is written then, in no folder
 */
export async function applyWork(work: Work, paths: string[] = []): Promise<Pulled> {
  using _lock = await work.room.lock();
  await refresh(work);
  const live = work.units.find(({ source }) => source.is_live);
  if (live) {
    throw new SbxError(
      "usage.invalid",
      `"${work.vm}" has "${live.dir}" itself: its files have the work already`,
    );
  }
  const parts = await acceptPaths(work, paths, baseOf);
  const planned: { unit: UnitWork; entries: Entry[] }[] = [];
  const conflicts: string[] = [];
  for (const unit of work.units) {
    // A submodule is a unit of its own: its files are given, and the commit that its parent names stays.
    const others = new Set(
      work.units.filter(({ source }) => source === unit.source).map(({ unit }) => unit.path),
    );
    const entries = (parts.get(unit) ?? await entriesOf(unit, [], baseOf(unit)))
      .filter(({ path }) => !others.has(unit.unit.path === "" ? path : `${unit.unit.path}/${path}`));
    planned.push({ unit, entries });
    const plan = await planOf(unit, entries, baseOf(unit));
    conflicts.push(...plan.conflicts.map((path) => unit.label === "" ? path : `${unit.label}/${path}`));
  }
  if (conflicts.length > 0) throw wouldOverwrite(work.vm, conflicts);
  const pulled: Pulled = { branches: [], is_unchanged: planned.every(({ entries }) => entries.length === 0) };
  for (const { unit, entries } of planned.filter(({ entries }) => entries.length > 0)) {
    const landed = await landFolder(unit, entries, baseOf(unit));
    await adopt(unit, entries, landed);
    pulled.folder = joined(pulled.folder, unit, landed);
    await work.room.write(work.record);
  }
  return pulled;
}

/** The commit whose files the person has, where they changed nothing since. */
const baseOf = ({ unit }: UnitWork) => unit.applied?.commit ?? unit.work;

function wouldOverwrite(vm: string, paths: string[]): SbxError {
  const rest = paths.length - PATHS_NAMED;
  const named = paths.slice(0, PATHS_NAMED).join(", ");
  return new SbxError(
    "repo.would_overwrite",
    `these files were changed here too, and nothing was written: ${named}${
      rest > 0 ? ` and ${rest} more` : ""
    }`,
    { hint: `sbx pull ${vm} makes a branch of the work, for git to merge` },
  );
}

/**
 * The changes that {@linkcode pullWork} takes. A pull into a folder makes them the base of later
 * comparisons, so read them first.
 *
 * @throws {SbxError} `repo.no_change`: a path is not among the changes
 */
export async function changesToPull(work: Work, paths: string[] = []): Promise<UnitChanges[]> {
  const parts = await acceptPaths(work, paths);
  return await Promise.all(work.units.map(async (unit) => {
    const changes = await changesOf(unit);
    const entries = parts.get(unit);
    if (!entries) return changes;
    const taken = new Set(entries.map(({ path }) => path));
    const notable = new Set(Array.from(taken, shown));
    return {
      ...changes,
      files: changes.files.filter(({ path }) => taken.has(path)),
      notable: changes.notable.filter((path) => notable.has(path)),
    };
  }));
}

/** The entries at some paths. @returns without the units of which all is taken */
async function acceptPaths(
  work: Work,
  paths: string[],
  base: (unit: UnitWork) => string = ({ unit }) => unit.work,
): Promise<Map<UnitWork, Entry[]>> {
  const accepted = new Map<UnitWork, Entry[]>();
  for (const { source, paths: below } of choose(work.record, paths)) {
    if (below.length === 0) continue;
    const units = work.units.filter((unit) => unit.source.name === source.name);
    const wanted = new Map(units.map((unit): [UnitWork, string[]] => [unit, []]));
    for (const path of below) {
      const parts = path.split("/").filter((part) => part !== "" && part !== ".");
      if (path.startsWith("/") || parts.includes("..") || parts.length === 0) throw notInside(path);
      const clean = parts.join("/");
      // The innermost: submodules come after their parents.
      const unit = units.findLast(({ unit }) => unit.path === "" || clean.startsWith(`${unit.path}/`))!;
      wanted.get(unit)!.push(unit.unit.path === "" ? clean : clean.slice(unit.unit.path.length + 1));
    }
    for (const [unit, each] of wanted) {
      accepted.set(unit, each.length === 0 ? [] : await entriesOf(unit, each, base(unit)));
    }
  }
  return accepted;
}

function notInside(path: string): SbxError {
  return new SbxError("repo.no_change", `"${path}" is not inside the work brought in`, {
    hint: "sbx diff NAME --stat shows the paths that changed; without a path everything is taken",
  });
}

/**
 * Name of the branch of a unit: the wanted one, or `sbx/VM`. Where an earlier source is a worktree of the
 * same repository, which has each branch once, the name of the source follows.
 */
async function branchOf(work: Work, { source, unit, person }: UnitWork, wanted?: string): Promise<string> {
  const name = wanted ?? `sbx/${work.vm}`;
  const common = await commonDir(person);
  for (const other of returning(work.record)) {
    if (other.name === source.name) return name;
    const [{ is_repository }] = other.units;
    if (unit.path !== "" || !is_repository) continue;
    const theirs = await Git.ofPerson(other.dir).then(commonDir).catch(() => undefined);
    if (theirs === common) return `${name}-${source.name.replaceAll(/[^A-Za-z0-9_-]+/g, "-")}`;
  }
  return name;
}

async function commonDir(git: Git): Promise<string> {
  return await git.text(["rev-parse", "--path-format=absolute", "--git-common-dir"]);
}

/** Most names of branches that are tried. */
const NAMES_MAX = 1000;

/** True if the VM still has all that a pull gave a branch. */
function isReplaceable({ unit }: UnitWork, branch: string, old: string): boolean {
  return unit.pulled[branch] === old && !unit.joined?.[branch];
}

/**
 * The first of `sbx/NAME`, `sbx/NAME-2`, … that holds nothing which moving it to `commit` would drop.
 *
 * @param isFree also a branch that does not lead to `commit`
 */
async function freeBranch(
  unit: UnitWork,
  branch: string,
  commit: string,
  isFree: (unit: UnitWork, branch: string, old: string) => boolean = () => false,
): Promise<string> {
  const { person, store } = unit;
  for (let number = 1; number <= NAMES_MAX; number++) {
    const name = number === 1 ? branch : `${branch}-${number}`;
    const old = await person.text(["rev-parse", "--verify", "--quiet", `refs/heads/${name}^{commit}`])
      .catch(() => undefined);
    if (
      old === undefined || isFree(unit, name, old) ||
      await store.git.succeeds(["merge-base", "--is-ancestor", old, commit])
    ) return name;
  }
  return branch;
}

async function land(
  work: Work,
  what: (unit: UnitWork) => Promise<Taken | undefined>,
): Promise<Pulled> {
  const pulled: Pulled = { branches: [], is_unchanged: work.units.every(({ isUnchanged }) => isUnchanged) };
  using _lock = await work.room.lock();
  await refresh(work);
  for (const unit of work.units.toReversed()) {
    const found = await what(unit);
    if (!found) continue;
    if (Array.isArray(found)) {
      const landed = await landFolder(unit, found);
      await adopt(unit, found, landed);
      pulled.folder = joined(pulled.folder, unit, landed);
    } else {
      const reason = `sbx: work of ${work.vm}`;
      pulled.branches.unshift(await landBranch(unit, found.commit, found.branch, reason));
      const { [found.branch]: _, ...squashed } = unit.unit.squashed ?? {};
      unit.unit.squashed = found.held === undefined ? squashed : { ...squashed, [found.branch]: found.held };
      const { [found.branch]: _before, ...joined } = unit.unit.joined ?? {};
      if (found.joined) joined[found.branch] = found.joined;
      unit.unit.joined = Object.keys(joined).length > 0 ? joined : undefined;
    }
    await work.room.write(work.record);
  }
  return pulled;
}

/** Files of several folders, each with the name of its own above. */
function joined(before: FolderLanded | undefined, { label }: UnitWork, landed: FolderLanded): FolderLanded {
  const named = (paths: string[]) => paths.map((path) => label === "" ? path : `${label}/${path}`);
  return {
    written: [...named(landed.written), ...before?.written ?? []],
    removed: [...named(landed.removed), ...before?.removed ?? []],
    conflicts: [...named(landed.conflicts), ...before?.conflicts ?? []],
  };
}

/**
 * Rereads the record: the work taken since it was collected, and sources brought in since.
 *
 * @throws {SbxError} `repo.changed`: the base of comparison has changed
 */
async function refresh(work: Work): Promise<void> {
  const record = await work.room.read();
  for (const unit of work.units) {
    const source = record?.sources.find(({ dir }) => dir === unit.source.dir);
    const now = source?.units.find(({ path }) => path === unit.unit.path);
    if (!record || !source || now?.work !== unit.unit.work) {
      throw new SbxError(
        "repo.changed",
        `work of "${work.vm}" was taken or a folder was brought in meanwhile`,
        { hint: "read the changes again, then choose" },
      );
    }
    work.record = record;
    unit.source = source;
    unit.unit = now;
  }
}

/**
 * Makes the content that files of the person have taken the base: of all later work in a folder, of
 * later applying in a repository.
 */
async function adopt(work: UnitWork, entries: Entry[], { conflicts }: FolderLanded): Promise<void> {
  const { unit, store, base, commits, tip } = work;
  const landed = entries.filter(({ path }) => !conflicts.includes(shown(path)));
  if (landed.length === 0) return;
  const before = baseOf(work);
  const commit = await commitOf(work, landed, "Pulled", { base: before });
  if (base !== store) {
    const input = new TextEncoder().encode(`${commit}\n^${before}\n`);
    const pack = store.git.stream(["pack-objects", "--revs", "--stdout", "-q"], { input });
    await base.git.run(["index-pack", "--stdin"], { input: pack });
  }
  await base.git.run(["update-ref", unit.is_repository ? "refs/sbx/applied" : "refs/sbx/work", commit]);
  if (!unit.is_repository) {
    unit.work = commit;
    return;
  }
  const [all, given] = await Promise.all(
    [tip, commit].map((id) => store.git.text(["rev-parse", `${id}^{tree}`])),
  );
  // A part of the work is no commit of the guest.
  unit.applied = { commit, ...all === given && commits.length > 0 && { head: commits[0] } };
}

/** @throws {SbxError} `usage.invalid` */
export function requireRepository(work: Work, option: string): void {
  if (work.units.some(({ unit }) => unit.is_repository)) return;
  throw new SbxError(
    "usage.invalid",
    `${option} needs a git repository; "${work.units[0].dir}" is a plain folder`,
  );
}
