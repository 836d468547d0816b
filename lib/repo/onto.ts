/** A further part of the work, on top of the branch that has the earlier ones. */
import { join } from "node:path";
import { ignore } from "../base/error/mod.ts";
import { commitOf, type Entry } from "./land.ts";
import { splitNul } from "./text.ts";
import type { UnitWork } from "./work.ts";

/** Modes of files with lines. */
const FILE = /^100/;

/**
 * The commit of some entries on top of a branch that is as sbx left it.
 *
 * @param branch of the person
 * @returns undefined where they do not go there: the branch is missing, has commits of the person, is checked
 * out, or has other changes to the same lines
 */
export async function commitOnto(
  unit: UnitWork,
  branch: string,
  entries: Entry[],
  message: string,
  env?: Record<string, string>,
): Promise<string | undefined> {
  const old = await earlierOf(unit, branch);
  if (old === undefined) return undefined;
  const merged: Entry[] = [];
  const [base, ours, theirs] = await Promise.all(
    [unit.unit.work, old, unit.tip].map((commit) => objectsOf(unit, commit, entries)),
  );
  for (const entry of entries) {
    const places = [base, ours, theirs].map((objects) => objects.get(entry.path));
    const found = await mergedEntry(unit, entry, places);
    if (found === "conflict") return undefined;
    merged.push(found);
  }
  const commit = await commitOf(unit, merged, message, { base: old, env });
  const [before, after] = await Promise.all(
    [old, commit].map((id) => unit.store.git.text(["rev-parse", `${id}^{tree}`])),
  );
  return before === after ? old : commit;
}

/** The commit of a branch to which only sbx gave commits, and which no worktree has checked out. */
async function earlierOf({ person, store, unit }: UnitWork, branch: string): Promise<string | undefined> {
  const ref = `refs/heads/${branch}`;
  const old = await person.text(["rev-parse", "--verify", "--quiet", `${ref}^{commit}`]).catch(() =>
    undefined
  );
  if (old === undefined || unit.pulled[branch] !== old) return undefined;
  const busy = await person.text(["for-each-ref", "--format=%(worktreepath)%(HEAD)", ref]);
  if (busy.trim() !== "" || !await store.git.succeeds(["cat-file", "-e", `${old}^{commit}`])) {
    return undefined;
  }
  return old;
}

type Place = { mode: string; id: string } | undefined;

/** Objects of a commit at the paths of some entries. */
async function objectsOf({ store }: UnitWork, commit: string, entries: Entry[]): Promise<Map<string, Place>> {
  const wanted = new Set(entries.map(({ path }) => path));
  const lines = splitNul(await store.git.run(["ls-tree", "-r", "-z", "--full-tree", commit]));
  return new Map(lines.flatMap((line) => {
    const path = line.slice(line.indexOf("\t") + 1);
    if (!wanted.has(path)) return [];
    const [mode, , id] = line.slice(0, line.indexOf("\t")).split(" ");
    return [[path, { mode, id }]];
  }));
}

/** One entry over the branch's state: a file accepted whole is as in the VM, and pieces join earlier ones. */
async function mergedEntry(
  unit: UnitWork,
  entry: Entry,
  [base, ours, theirs]: Place[],
): Promise<Entry | "conflict"> {
  const { object } = entry;
  if (!object || object.id === theirs?.id || isSame(base, ours) || isSame(object, ours)) return entry;
  // A piece has lines on both sides.
  if (!base || !ours || [object, base, ours].some(({ mode }) => !FILE.test(mode))) return "conflict";
  const id = await mergedBlob(unit, base.id, ours.id, object.id);
  if (id === undefined) return "conflict";
  return { ...entry, object: { mode: object.mode === base.mode ? ours.mode : object.mode, id } };
}

const isSame = (one: Place, other: Place) => one?.id === other?.id && one?.mode === other?.mode;

/** git's three-way merge of three texts. @returns undefined: they change the same lines */
async function mergedBlob(
  { store: { dir, git } }: UnitWork,
  base: string,
  ours: string,
  theirs: string,
): Promise<string | undefined> {
  const folder = join(dir, `merge-${crypto.randomUUID()}`);
  await Deno.mkdir(folder, { mode: 0o700 });
  try {
    const files = [ours, base, theirs].map((_, at) => join(folder, String(at)));
    for (const [at, id] of [ours, base, theirs].entries()) {
      await Deno.writeFile(files[at], await git.run(["cat-file", "blob", id]), { mode: 0o600 });
    }
    const input = await git.run(["merge-file", "-p", "-q", ...files]).catch(() => undefined);
    return input && await git.text(["hash-object", "-w", "--stdin", "--no-filters"], { input });
  } finally {
    await Deno.remove(folder, { recursive: true }).catch(ignore("the next who takes work removes the store"));
  }
}
