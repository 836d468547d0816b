/** A person's own uncommitted work in a branch that was taken. */
import { DIFF_MAX } from "./limit.ts";
import { shown, splitNul } from "./text.ts";
import type { UnitWork } from "./work.ts";

const NAMES = ["diff-tree", "-r", "-z", "--name-only", "--no-ext-diff", "--no-renames"];

/**
 * Files that the person had not committed when they went in, and that a commit has otherwise than the
 * person's checked-out one. While they lie in the folder, git refuses to merge it.
 */
export async function yoursIn({ unit, store, person }: UnitWork, commit: string): Promise<string[]> {
  if (!unit.is_repository || unit.head === undefined) return [];
  const limit = DIFF_MAX;
  const yours = splitNul(await store.git.run([...NAMES, unit.head, unit.work], { limit }));
  if (yours.length === 0) return [];
  const head = await person.text(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]).catch(() =>
    unit.head!
  );
  const taken = new Set(splitNul(await person.run([...NAMES, head, commit], { limit })));
  return yours.filter((path) => taken.has(path)).map(shown);
}
