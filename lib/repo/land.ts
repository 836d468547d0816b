/** Work into the person's own repository: objects and a branch, nothing else. */
import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { fromLatin1, latin1, splitNul } from "./text.ts";
import { commitTree } from "./snapshot.ts";
import type { UnitWork } from "./work.ts";

/** Names that git gives to packs that it has not finished. */
const UNFINISHED = /^tmp_(?:pack|idx|rev)_/;

/** Result of a pull into a repository. */
export interface Landed {
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
 * @throws {SbxError} `repo.branch_invalid`; `repo.branch_moved`: it has commits of its own; `repo.branch_busy`: it is
 * checked out; `repo.git_failed`: the repository is as before
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
  return { path: unit.path, branch, commit, commits: Number(count) };
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
    throw new SbxError("repo.branch_invalid", `"${branch}" is no name of a branch`, {
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
  const isOurs = unit.pulled[branch] === old ||
    await store.git.succeeds(["merge-base", "--is-ancestor", old, commit]);
  if (isOurs) return old;
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

/** Makes a commit on top of the brought-in state, with some paths changed. @returns its id */
export async function commitOf(
  { store, unit }: UnitWork,
  entries: Entry[],
  message: string,
): Promise<string> {
  const index = join(store.dir, `index-${crypto.randomUUID()}`);
  const git = store.git.with({ GIT_INDEX_FILE: index });
  try {
    await git.run(["read-tree", unit.work]);
    const zeros = "0".repeat(unit.work.length);
    const lines = entries.map(({ path, object }) =>
      `${object?.mode ?? "0"} ${object?.id ?? zeros}\t${path}\0`
    );
    // Removals first: a file may become a folder.
    lines.sort((a, b) => Number(b.startsWith("0 ")) - Number(a.startsWith("0 ")));
    await git.run(["update-index", "-z", "--index-info"], { input: fromLatin1(lines.join("")) });
    return await commitTree(git, await git.text(["write-tree"]), [unit.work], message);
  } finally {
    await Deno.remove(index).catch(() => {});
  }
}

/** The entries of some paths that the guest changed. @throws {SbxError} `repo.no_change`: a path is not among them */
export async function entriesOf({ store, unit, tip }: UnitWork, paths: string[]): Promise<Entry[]> {
  const raw = splitNul(
    await store.git.run([
      "diff-tree",
      "-r",
      "-z",
      "--raw",
      "--no-abbrev",
      "--no-renames",
      unit.work,
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
      hint: "sbx diff NAME --stat shows what",
    });
  }
  return entries;
}
