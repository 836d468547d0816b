/** Backtest of a few events that came with a request (contracts.md §6); a file of them is `check.ts`. */
import type { DetectionIr } from "../ir.ts";
import type { Matchable } from "../match/index_node.ts";
import { type LoadedRule, Matcher } from "../match/matcher.ts";
import { contextFault } from "./context.ts";
import {
  type EventRef,
  Evidence,
  EVIDENCE_ROWS,
  type EvidenceReport,
  foundBy,
  type Outcome,
  refOf,
} from "./evidence.ts";
import { compareLabels } from "./label.ts";

/** Corpus of events that name none. */
export const INLINE_CORPUS = "inline";

const NO_REF: EventRef = {
  corpus: INLINE_CORPUS,
  session_id: "",
  event_id: "",
  sequence: 0,
  timestamp_unix_ms: 0,
};

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
 *
 * @throws {SbxError} `detection.conflict`
 */
export function backtest(
  irs: readonly DetectionIr[],
  cases: readonly BacktestCase[],
  { limit = EVIDENCE_ROWS }: { limit?: number } = {},
): EvidenceReport {
  const run = new Run(new Matcher(irs), new Evidence(limit));
  cases.forEach((each, at) => run.case(each, at));
  return run.evidence.report();
}

class Run {
  constructor(readonly matcher: Matcher, readonly evidence: Evidence) {}

  case({ event_ref, context, expected }: BacktestCase, at: number): void {
    const fault = contextFault(context);
    const event = context as Matchable;
    const own = fault === undefined ? refOf(event, INLINE_CORPUS, at + 1) : { ...NO_REF, sequence: at + 1 };
    const ref = { ...own, ...event_ref };
    if (fault !== undefined) this.#fault(ref, "error", `events[${at}].context: ${fault}`);
    else this.#compare(event, ref, expected);
  }

  #compare(event: Matchable, ref: EventRef, expected: BacktestCase["expected"]): void {
    const hits = this.matcher.hits(event);
    if (expected === undefined || expected === true) {
      this.evidence.add(event, ref, foundBy(event, hits));
      if (expected && !hits.length) this.#fault(ref, "no_match", "a match was expected");
      return;
    }
    const { missed, unexpected } = compareLabels(expected || [], hits.map(({ rule }) => rule));
    const message = expected ? "its labels were not expected" : "no match was expected";
    const outcomeOf = ({ rule }: LoadedRule): Outcome =>
      unexpected.includes(rule.id) ? { outcome: "mismatch", message } : { outcome: "matched" };
    this.evidence.add(event, ref, foundBy(event, hits, outcomeOf));
    for (const label of missed) this.#fault(ref, "no_match", `"${label}" was expected`, label);
  }

  #fault(event_ref: EventRef, outcome: Outcome["outcome"], message: string, rule_id = ""): void {
    const outcomeRow = { outcome, message };
    const row = { event_ref, rule_id, pack_id: "", evidence_signature: "", matched_fields: [] };
    this.evidence.fault({ ...row, outcome: outcomeRow });
  }
}
