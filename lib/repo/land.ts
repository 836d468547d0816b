/** Work into the person's own repository: objects and a branch, nothing else. */
import { createHash } from "node:crypto";
import { basename, dirname, join } from "node:path";
import { openBeneath, OpenError } from "../../ffi/host/files.ts";
import type { PathHandle } from "../../ffi/host/handle.ts";
import { ignore, SbxError } from "../base/error/mod.ts";
import { decodeUtf8 } from "../base/text/mod.ts";
import { writeAll } from "../base/wire/mod.ts";
import { refused } from "./refusal.ts";
import { commitTree } from "./snapshot.ts";
import { exactText, fromLatin1, latin1, shown, splitNul } from "./text.ts";
import type { UnitWork } from "./work.ts";

/** Names that git gives to packs that it has not finished. */
const UNFINISHED = /^tmp_(?:pack|idx|rev)_/;

/** Result of a pull into a repository. */
export interface Landed {
  /** name of the source in the VM */
  repository: string;
  /** folder of the person */
  dir: string;
  /** below the folder; "" for that itself */
  path: string;
  branch: string;
  commit: string;
  /** number of new commits on it */
  commits: number;
}

/**
 * Gives the person's repository a branch with a commit of the store.
 *
 * @param reason line of the branch's reflog
 * @throws {SbxError} `repo.branch_invalid`; `repo.branch_moved`: it has commits of its own;
 * `repo.branch_busy`: it is checked out; `repo.git_failed`: the repository is as before
 */
export async function landBranch(
  work: UnitWork,
  commit: string,
  branch: string,
  reason: string,
): Promise<Landed> {
  const { person, unit, store } = work;
  const ref = `refs/heads/${branch}`;
  const old = await requireBranch(work, branch, commit);
  const refs = (await person.text(["for-each-ref", "--format=%(objectname)"])).split("\n").filter((id) =>
    id !== ""
  );
  const revisions = [commit, ...new Set(refs)].map((id, at) => at === 0 ? id : `^${id}`).join("\n");
  const pack = store.git.stream(
    ["pack-objects", "--revs", "--stdout", "--thin", "--delta-base-offset", "-q"],
    {
      input: new TextEncoder().encode(`${revisions}\n`),
    },
  );
  await withoutRemains(
    work,
    () => person.run(["index-pack", "--stdin", "--fix-thin", "--strict"], { input: pack }),
  );
  await person.run(["update-ref", "--create-reflog", "-m", reason, ref, commit, old]);
  unit.pulled[branch] = commit;
  const count = await person.text(["rev-list", "--count", commit, ...unit.head ? [`^${unit.head}`] : []]);
  return {
    repository: work.source.name,
    dir: work.dir,
    path: unit.path,
    branch,
    commit,
    commits: Number(count),
  };
}

/** @returns the commit that the branch has, or zeros */
async function requireBranch(
  { person, unit, store }: UnitWork,
  branch: string,
  commit: string,
): Promise<string> {
  const ref = `refs/heads/${branch}`;
  // git's own git branch refuses these too: they mean something else wherever a branch is named.
  const isTaken = branch.startsWith("-") || ["HEAD", "@"].includes(branch);
  if (isTaken || !await person.succeeds(["check-ref-format", ref])) {
    throw new SbxError("repo.branch_invalid", `"${branch}" is not a valid name of a branch`, {
      hint: "give another: --branch B",
    });
  }
  const old = await person.text(["rev-parse", "--verify", "--quiet", `${ref}^{commit}`]).catch(() =>
    undefined
  );
  if (old === undefined) return "0".repeat(commit.length);
  const busy = await person.text(["for-each-ref", "--format=%(worktreepath)%(HEAD)", ref]);
  if (busy.trim() !== "") {
    throw new SbxError("repo.branch_busy", `the branch "${branch}" is checked out`, {
      hint: "check out another branch, or give another name: --branch B",
    });
  }
  const joined = unit.joined?.[branch];
  const isOurs = unit.pulled[branch] === old && !joined ||
    await store.git.succeeds(["merge-base", "--is-ancestor", old, commit]);
  if (isOurs) return old;
  if (unit.pulled[branch] === old && joined) {
    throw new SbxError("repo.branch_moved", `the branch "${branch}" has work of ${joined.join(", ")} too`, {
      hint: "give another name: --branch B; the branch stays as it is",
    });
  }
  throw new SbxError("repo.branch_moved", `the branch "${branch}" has commits that the VM does not have`, {
    hint: "give another name: --branch B; your commits stay where they are",
  });
}

/** Removes leftovers of an interrupted git from the person's packs. */
async function withoutRemains(work: UnitWork, write: () => Promise<unknown>): Promise<void> {
  const folder = join(
    await work.person.text(["rev-parse", "--path-format=absolute", "--git-path", "objects"]),
    "pack",
  );
  const unfinished = async () =>
    (await Array.fromAsync(Deno.readDir(folder), ({ name }) => name).catch(() => [])).filter((name) =>
      UNFINISHED.test(name)
    );
  const before = new Set(await unfinished());
  try {
    await write();
  } catch (error) {
    for (const name of await unfinished()) if (!before.has(name)) await Deno.remove(join(folder, name));
    throw error;
  }
}

/** An entry of an index: a path, and its object where it has one. */
export interface Entry {
  path: string;
  /** absent: the path goes */
  object?: { mode: string; id: string };
}

/** Makes a commit on top of the brought-in state, or of `base`, with some paths changed. @returns its id */
export async function commitOf(
  { store, unit }: UnitWork,
  entries: Entry[],
  message: string,
  { base = unit.work, env }: { base?: string; env?: Record<string, string> } = {},
): Promise<string> {
  const index = join(store.dir, `index-${crypto.randomUUID()}`);
  const git = store.git.with({ GIT_INDEX_FILE: index });
  try {
    await git.run(["read-tree", base]);
    const zeros = "0".repeat(unit.work.length);
    const lines = entries.map(({ path, object }) =>
      `${object?.mode ?? "0"} ${object?.id ?? zeros}\t${path}\0`
    );
    // Removals first: a file may become a folder.
    lines.sort((a, b) => Number(b.startsWith("0 ")) - Number(a.startsWith("0 ")));
    await git.run(["update-index", "-z", "--index-info"], { input: fromLatin1(lines.join("")) });
    return await commitTree(git, await git.text(["write-tree"]), [base], message, env);
  } finally {
    await Deno.remove(index).catch(ignore("git may have made no index"));
  }
}

/**
 * The entries of some paths that the guest changed since it was brought in, or since `base`.
 * @throws {SbxError} `repo.no_change`: a path is not among them
 */
export async function entriesOf(
  { store, unit, tip }: UnitWork,
  paths: string[],
  base = unit.work,
): Promise<Entry[]> {
  const raw = splitNul(
    await store.git.run([
      "diff-tree",
      "-r",
      "-z",
      "--raw",
      "--no-abbrev",
      "--no-renames",
      base,
      tip,
      "--",
      ...paths,
    ]),
  );
  const entries: Entry[] = [];
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const [, mode, , id, status] = raw[at].slice(1).split(" ");
    entries.push({ path: raw[at + 1], ...status !== "D" && { object: { mode, id } } });
  }
  for (const path of paths) {
    const name = latin1(new TextEncoder().encode(path));
    if (entries.some((entry) => entry.path === name || entry.path.startsWith(`${name}/`))) continue;
    throw new SbxError("repo.no_change", `the VM changed nothing at "${path}"`, {
      hint: "sbx diff NAME --stat shows the paths that changed",
    });
  }
  return entries;
}

// Three-way merge of work into a folder without a repository, by file contents.

/** Result of a pull into a folder. */
export interface FolderLanded {
  written: string[];
  removed: string[];
  /** files that were changed on the host too: they are as they were */
  conflicts: string[];
}

/** State of a path: `MODE ID` of git; undefined: nothing there; "other": a kind git does not track. */
type State = string | undefined;

const EXECUTABLE = 0o111;
const FILE_MODE = 0o644;

/**
 * Applies entries to the folder of the person. A file that is neither as it was brought in nor
 * as the guest has it stays. New content is written beside the folder's files first: when the
 * disk fills, nothing has changed.
 *
 * @throws {SbxError} `disk.full`, `repo.unsupported`: a repository in the folder,
 * `repo.refused`: a name that is not UTF-8
 */
export async function landFolder(
  work: UnitWork,
  entries: Entry[],
  base = work.unit.work,
): Promise<FolderLanded> {
  const { before, wanted, conflicts } = await planOf(work, entries, base);
  const result: FolderLanded = { written: [], removed: [], conflicts };
  const staging = join(work.dir, `.sbx-pull-${crypto.randomUUID()}`);
  await Deno.mkdir(staging, { mode: 0o700 });
  try {
    await stage(work, staging, wanted);
    // Removals first: a file may become a folder, and a folder a file.
    for (const entry of wanted.filter(({ object }) => !object)) {
      await remove(work.dir, entry.path, before, result);
    }
    for (const [at, entry] of wanted.entries()) {
      if (entry.object) await place(work.dir, join(staging, String(at)), entry, before, result);
    }
  } finally {
    await Deno.remove(staging, { recursive: true }).catch(ignore("leftover files change nothing"));
  }
  return result;
}

/**
 * Sorts entries by whether the folder of the person can take them.
 *
 * @param base commit whose files the person has, where they changed nothing
 */
export async function planOf(work: UnitWork, entries: Entry[], base: string) {
  const before = await listing(work, base);
  const wanted: Entry[] = [];
  const conflicts: string[] = [];
  const gone = new Set<string>();
  for (const entry of [...entries].sort((a, b) => Number(!!a.object) - Number(!!b.object))) {
    const target = entry.object && stateOf(entry.object);
    const current = above(entry.path).some((path) => gone.has(path))
      ? undefined
      : await stateAt(work.dir, entry.path, before.get(entry.path) ?? target);
    if (current === target) continue;
    if (current !== before.get(entry.path) || entry.object?.mode === "160000") {
      conflicts.push(shown(entry.path));
      continue;
    }
    wanted.push(entry);
    if (!entry.object) gone.add(entry.path);
  }
  return { before, wanted, conflicts };
}

async function listing({ store }: UnitWork, commit: string): Promise<Map<string, string>> {
  const lines = splitNul(await store.git.run(["ls-tree", "-r", "-z", "--full-tree", commit]));
  return new Map(lines.map((line) => {
    const [mode, , id] = line.slice(0, line.indexOf("\t")).split(" ");
    return [line.slice(line.indexOf("\t") + 1), stateOf({ mode, id })];
  }));
}

/** Paths of the folders above a path. */
export function above(path: string): string[] {
  const parts = path.split("/");
  return parts.slice(1).map((_, at) => parts.slice(0, at + 1).join("/"));
}

const stateOf = ({ mode, id }: { mode: string; id: string }) => `${mode} ${id}`;

/**
 * State of a path on the host now.
 * @param like a state to compare it with, of a repository with SHA-1 or SHA-256
 */
async function stateAt(root: string, path: string, like: State): Promise<State> {
  const algorithm = like !== undefined && like.length > "100644 ".length + 40 ? "sha256" : "sha1";
  using folder = parentOf(root, path);
  if (folder === null) return isOutside(root, path) ? "other" : undefined;
  const full = `${folder.path}/${nameOf(path)}`;
  const info = await Deno.lstat(full).catch(() => undefined);
  if (!info) return undefined;
  if (info.isSymlink) {
    return `120000 ${blobId(new TextEncoder().encode(await Deno.readLink(full)), algorithm)}`;
  }
  if (!info.isFile) return "other";
  return `${(info.mode ?? 0) & 0o100 ? "100755" : "100644"} ${await fileId(full, info.size, algorithm)}`;
}

/** Opens the folder of a path; null if it is missing, or a link leads out of the root. */
function parentOf(root: string, path: string): PathHandle | null {
  try {
    return openBeneath(root, text(dirname(path)), { directory: true });
  } catch (error) {
    if (error instanceof OpenError) return null;
    throw error;
  }
}

/** True if something other than a missing folder is in the way of a path. */
function isOutside(root: string, path: string): boolean {
  try {
    using _folder = openBeneath(root, text(dirname(path)), { directory: true });
    return false;
  } catch (error) {
    return !(error instanceof OpenError && error.code === "ENOENT");
  }
}

const nameOf = (path: string) => text(basename(path));

/** A path as the host's calls take it: never another one than that which was checked. */
function text(path: string): string {
  const exact = exactText(path);
  if (exact === undefined) throw refused(`"${shown(path)}" cannot be written: its name is not UTF-8`);
  return exact;
}

/** Writes the content of every entry into the staging folder, under its number. */
async function stage({ store }: UnitWork, staging: string, entries: Entry[]): Promise<void> {
  for (const [at, { path, object }] of entries.entries()) {
    if (!object) continue;
    const to = join(staging, String(at));
    const content = store.git.stream(["cat-file", "blob", object.id]);
    if (object.mode === "120000") {
      const target = decodeUtf8(await collected(content));
      if (target === undefined) throw refused(`the target of "${shown(path)}" is not UTF-8`);
      await Deno.symlink(target, to);
      continue;
    }
    using file = await Deno.open(to, { write: true, createNew: true, mode: 0o600 });
    for await (const chunk of content) await writeAll(file, chunk);
    await file.sync();
  }
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array<ArrayBuffer>> {
  return new Uint8Array(await new Blob(await Array.fromAsync(chunks) as BlobPart[]).arrayBuffer());
}

async function place(
  root: string,
  from: string,
  { path, object }: Entry,
  before: Map<string, string>,
  result: FolderLanded,
): Promise<void> {
  makeParents(root, path);
  using folder = parentOf(root, path);
  const now = await stateAt(root, path, before.get(path));
  if (folder === null || now !== before.get(path)) {
    result.conflicts.push(shown(path));
    return;
  }
  const to = `${folder.path}/${nameOf(path)}`;
  const old = await Deno.lstat(to).catch(() => undefined);
  if (object!.mode !== "120000") await Deno.chmod(from, modeFor(object!.mode, old));
  await Deno.rename(from, to).catch((cause) => {
    throw new SbxError("file.invalid", `"${shown(path)}" cannot be written`, {
      cause,
      hint: "is it another disk?",
    });
  });
  result.written.push(shown(path));
}

/** Keeps a file's read permissions; only git's executable bit changes. */
function modeFor(mode: string, old: Deno.FileInfo | undefined): number {
  const kept = old?.isFile ? (old.mode ?? FILE_MODE) & 0o777 & ~EXECUTABLE : FILE_MODE;
  return mode === "100755" ? kept | (kept >> 2 & EXECUTABLE) : kept;
}

function makeParents(root: string, path: string): void {
  const parts = text(dirname(path)).split("/").filter((part) => part !== ".");
  for (const [at, part] of parts.entries()) {
    try {
      using parent = openBeneath(root, parts.slice(0, at).join("/") || ".", { directory: true });
      Deno.mkdirSync(`${parent.path}/${part}`);
    } catch (error) {
      if (!(error instanceof Deno.errors.AlreadyExists)) return; // The path's state names the obstacle.
    }
  }
}

async function remove(
  root: string,
  path: string,
  before: Map<string, string>,
  result: FolderLanded,
): Promise<void> {
  using folder = parentOf(root, path);
  if (folder === null) return;
  if (await stateAt(root, path, before.get(path)) !== before.get(path)) {
    result.conflicts.push(shown(path));
    return;
  }
  await Deno.remove(`${folder.path}/${nameOf(path)}`);
  result.removed.push(shown(path));
  removeEmptyParents(root, path);
}

function removeEmptyParents(root: string, path: string): void {
  for (let folder = dirname(path); folder !== "."; folder = dirname(folder)) {
    try {
      using parent = openBeneath(root, text(dirname(folder)), { directory: true });
      Deno.removeSync(`${parent.path}/${nameOf(folder)}`);
    } catch {
      return; // not empty
    }
  }
}

/** git's id of a blob. */
function blobId(bytes: Uint8Array, algorithm: string): string {
  return createHash(algorithm).update(`blob ${bytes.length}\0`).update(bytes).digest("hex");
}

async function fileId(path: string, size: number, algorithm: string): Promise<string> {
  const hash = createHash(algorithm).update(`blob ${size}\0`);
  using file = await Deno.open(path);
  for await (const chunk of file.readable) hash.update(chunk);
  return hash.digest("hex");
}
