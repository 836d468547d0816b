import type { ConfigIssue } from "./node.ts";

/** What a chain needs of a leaf. */
interface Linked {
  id: string;
  type: string;
  enabledBy: string | null;
}

/** Who switches whom, found once for the definitions. */
export interface Chains {
  /** index of the toggle that a leaf hangs on; {@linkcode NONE} or {@linkcode BROKEN} where there is no such */
  parents: Int32Array;
  /** every index, each after its parent: resolution is one pass in this order */
  order: Int32Array;
  issues: ConfigIssue[];
}

/** The leaf hangs on nothing. */
export const NONE = -1;
/** The leaf hangs on something that is not there, is no toggle, or hangs on the leaf itself: it stays disabled. */
export const BROKEN = -2;

/** Follows every `enabled_by`. A missing parent and a cycle are issues, and disable what hangs on them. */
export function linkChains(leaves: readonly Linked[]): Chains {
  const indexOf = new Map(leaves.map(({ id }, index) => [id, index]));
  const issues: ConfigIssue[] = [];
  const parents = Int32Array.from(leaves, ({ id, enabledBy }) => {
    if (enabledBy === null) return NONE;
    const parent = indexOf.get(enabledBy);
    if (parent !== undefined && leaves[parent].type === "bool") return parent;
    const message = parent === undefined
      ? `enabled_by names "${enabledBy}", which is no setting; this one stays disabled`
      : `enabled_by names "${enabledBy}", which is not a bool; this one stays disabled`;
    issues.push({ id, severity: "error", message });
    return BROKEN;
  });
  return { parents, order: parentsFirst(leaves, parents, issues), issues };
}

function parentsFirst(leaves: readonly Linked[], parents: Int32Array, issues: ConfigIssue[]): Int32Array {
  const order = new Int32Array(leaves.length);
  const [FRESH, ON_PATH, PLACED] = [0, 1, 2];
  const state = new Uint8Array(leaves.length);
  let placed = 0;
  for (let start = 0; start < leaves.length; start++) {
    const path: number[] = [];
    let at = start;
    while (at >= 0 && state[at] === FRESH) {
      state[at] = ON_PATH;
      path.push(at);
      at = parents[at];
    }
    if (at >= 0 && state[at] === ON_PATH) breakCycle(leaves, parents, path.slice(path.indexOf(at)), issues);
    for (const index of path.reverse()) {
      state[index] = PLACED;
      order[placed++] = index;
    }
  }
  return order;
}

function breakCycle(
  leaves: readonly Linked[],
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
      message: `enabled_by leads in a circle (${names}); these settings stay disabled`,
    });
  }
}
