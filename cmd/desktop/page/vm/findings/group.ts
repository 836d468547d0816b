import type { Answer, RouteAt } from "../../../../../lib/client/api/schema.ts";

type ListedFinding = Answer<RouteAt<"GET", "/sessions/{id}/findings">>["findings"][number];

/** A step in the life of a finding, as people choose them. */
export const STATES = ["open", "acknowledged", "closed", "excepted"] as const;
export type State = typeof STATES[number];

/** Fields by which findings are grouped. */
type Grouped =
  & Pick<
    ListedFinding,
    "finding_id" | "group" | "rule_id" | "title" | "subject" | "decision" | "states" | "exception"
  >
  & { session_id?: string };

/** Findings that a person reads as one: one row. */
export interface Group<F extends Grouped = ListedFinding> {
  /** the newest one, which the row shows */
  head: F;
  ids: string[];
}

/**
 * Findings that belong together, such as the lookups of one name, and all of one rule about one subject
 * with one outcome, in one state: the row shows them once.
 *
 * @param findings the newest first
 */
export function groupsOf<F extends Grouped>(findings: readonly F[]): Group<F>[] {
  const parts = Map.groupBy(
    findings,
    ({ session_id, group, finding_id }) => JSON.stringify([session_id, group ?? finding_id]),
  );
  const wholes = Map.groupBy(
    parts.values(),
    ([head]) =>
      JSON.stringify([
        head.session_id,
        head.rule_id,
        head.title,
        head.subject ?? head.finding_id,
        head.decision?.outcome,
        stateOf(head),
        head.states?.at(-1)?.verdict,
      ]),
  );
  return [...wholes.values()].map((whole) => ({
    head: whole[0][0],
    ids: whole.flat().map(({ finding_id }) => finding_id),
  }));
}

/** Most findings whose state one request changes (`FINDINGS_MAX` of the route). */
const REQUEST_FINDINGS = 1000;

/** Ids of a row's findings, in the parts that a request takes. */
export function requestsOf(ids: readonly string[]): string[][] {
  return Array.from(
    { length: Math.ceil(ids.length / REQUEST_FINDINGS) },
    (_, at) => ids.slice(at * REQUEST_FINDINGS, (at + 1) * REQUEST_FINDINGS),
  );
}

export function stateOf({ states, exception }: Pick<ListedFinding, "states" | "exception">): State {
  const last = states?.at(-1)?.status;
  if (last === "closed" || last === "acknowledged") return last;
  return exception === undefined ? "open" : "excepted";
}
