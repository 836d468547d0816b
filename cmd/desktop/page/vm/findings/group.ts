import type { ListedFinding } from "../../../api/routes.ts";

/** A step in the life of a finding, as people choose them. */
export const STATES = ["open", "acknowledged", "closed", "excepted"] as const;
export type State = typeof STATES[number];

/** Findings that belong together, such as the lookups of one name: one row. */
export interface Group {
  /** the newest one, which the row shows */
  head: ListedFinding;
  ids: string[];
}

/** @param findings the newest first */
export function groupsOf(findings: readonly ListedFinding[]): Group[] {
  const groups = Map.groupBy(findings, ({ group, finding_id }) => group ?? finding_id);
  return [...groups.values()].map((group) => ({
    head: group[0],
    ids: group.map(({ finding_id }) => finding_id),
  }));
}

export function stateOf({ states, exception }: ListedFinding): State {
  const last = states?.at(-1)?.status;
  if (last === "closed" || last === "acknowledged") return last;
  return exception === undefined ? "open" : "excepted";
}
