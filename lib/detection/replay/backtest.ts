/** Backtest of a few events that came with a request (contracts.md §6); a file of them is `check.ts`. */
import type { DetectionIr } from "../ir.ts";
import { Matcher } from "../match/matcher.ts";
import type { Matchable } from "../match/index_node.ts";
import { contextFault } from "./context.ts";
import {
  type EventRef,
  Evidence,
  EVIDENCE_ROWS,
  type EvidenceReport,
  type Outcome,
  refOf,
} from "./evidence.ts";
import { compareLabels } from "./label.ts";

/** Corpus of events that name none. */
export const INLINE_CORPUS = "inline";

/** One event with what is expected of it. */
export interface BacktestCase {
  event_ref?: Partial<EventRef>;
  /** a policy context: any part of an event, with its type */
  context: unknown;
  /** whether a rule matches it, or the labels of those that do; anything is right when absent */
  expected?: boolean | string[];
}

/**
 * What a set of detections says of events. An event that is none becomes a row with the outcome `error`, and hides
 * none of the others.
 */
export function backtest(
  irs: readonly DetectionIr[],
  cases: readonly BacktestCase[],
  { limit = EVIDENCE_ROWS }: { limit?: number } = {},
): EvidenceReport {
  const matcher = new Matcher(irs);
  const evidence = new Evidence(limit);
  cases.forEach((each, at) => runCase(matcher, evidence, each, at));
  return evidence.report();
}

function runCase(
  matcher: Matcher,
  evidence: Evidence,
  { event_ref, context, expected }: BacktestCase,
  at: number,
): void {
  const fault = contextFault(context);
  const event = context as Matchable;
  const ref: EventRef = {
    ...(fault === undefined ? refOf(event, INLINE_CORPUS, at + 1) : { ...NO_REF, sequence: at + 1 }),
    ...event_ref,
  };
  const note = (outcome: Outcome, rule_id = "") =>
    evidence.fault({
      event_ref: ref,
      rule_id,
      pack_id: "",
      evidence_signature: "",
      matched_fields: [],
      outcome,
    });
  if (fault !== undefined) return note({ outcome: "error", message: `events[${at}].context: ${fault}` });
  const hits = matcher.hits(event);
  if (expected === undefined || expected === true) {
    evidence.add(event, ref, hits);
    if (expected && !hits.length) note({ outcome: "no_match", message: "a match was expected" });
    return;
  }
  const { missed, unexpected } = compareLabels(expected || [], hits.map(({ rule }) => rule));
  evidence.add(
    event,
    ref,
    hits,
    ({ rule }) =>
      unexpected.includes(rule.id)
        ? {
          outcome: "mismatch",
          message: expected ? "its labels were not expected" : "no match was expected",
        }
        : { outcome: "matched" },
  );
  for (const label of missed) note({ outcome: "no_match", message: `"${label}" was expected` }, label);
}

const NO_REF: EventRef = {
  corpus: INLINE_CORPUS,
  session_id: "",
  event_id: "",
  sequence: 0,
  timestamp_unix_ms: 0,
};
