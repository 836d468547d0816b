import type { ConfigIssue } from "./node/mod.ts";

/** Leaf with its `enabled_by` reference. */
interface ChainLeaf {
  id: string;
  type: string;
  enabledBy: string | null;
}

/** Resolved `enabled_by` references of all leaves. */
export interface Chains {
  /** index of each leaf's toggle, or {@linkcode NONE} or {@linkcode BROKEN} */
  parents: Int32Array;
  /** every index, parents before children, so that resolution is one pass */
  order: Int32Array;
  issues: ConfigIssue[];
}

/** No `enabled_by`. */
export const NONE = -1;
/** `enabled_by` refers to a missing setting, to a non-toggle, or back to the leaf itself: the leaf stays disabled. */
export const BROKEN = -2;

/** Resolves every `enabled_by`. A missing parent or a cycle is an issue and disables the dependent leaves. */
export function linkChains(leaves: readonly ChainLeaf[]): Chains {
  const indexOf = new Map(leaves.map(({ id }, index) => [id, index]));
  const issues: ConfigIssue[] = [];
  const parents = Int32Array.from(leaves, ({ id, enabledBy }) => {
    if (enabledBy === null) return NONE;
    const parent = indexOf.get(enabledBy);
    if (parent !== undefined && leaves[parent].type === "bool") return parent;
    const message = parent === undefined
      ? `enabled_by names the unknown setting "${enabledBy}"; this setting stays disabled`
      : `enabled_by names "${enabledBy}", which is not a bool; this setting stays disabled`;
    issues.push({ id, severity: "error", message });
    return BROKEN;
  });
  return { parents, order: sortParentsFirst(leaves, parents, issues), issues };
}

function sortParentsFirst(
  leaves: readonly ChainLeaf[],
  parents: Int32Array,
  issues: ConfigIssue[],
): Int32Array {
  const order = new Int32Array(leaves.length);
  const [UNVISITED, ON_PATH, DONE] = [0, 1, 2];
  const state = new Uint8Array(leaves.length);
  let count = 0;
  for (let start = 0; start < leaves.length; start++) {
    const path: number[] = [];
    let at = start;
    while (at >= 0 && state[at] === UNVISITED) {
      state[at] = ON_PATH;
      path.push(at);
      at = parents[at];
    }
    if (at >= 0 && state[at] === ON_PATH) breakCycle(leaves, parents, path.slice(path.indexOf(at)), issues);
    for (const index of path.reverse()) {
      state[index] = DONE;
      order[count++] = index;
    }
  }
  return order;
}

function breakCycle(
  leaves: readonly ChainLeaf[],
  parents: Int32Array,
  cycle: number[],
  issues: ConfigIssue[],
) {
  const names = [...cycle, cycle[0]].map((index) => leaves[index].id).join(" → ");
  for (const index of cycle) {
    parents[index] = BROKEN;
    issues.push({
      id: leaves[index].id,
      severity: "error",
      message: `cycle in enabled_by (${names}); these settings stay disabled`,
    });
  }
}
