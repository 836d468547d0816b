/**
 * Backtest of events in a request (docs/design/contracts/06-detection.md §6); `check.ts` runs a file of
 * events.
 */
import { normalizeContext, type PolicyContext } from "../../event/mod.ts";
import type { Compiled } from "../compiled.ts";
import type { Matchable } from "../match/index_node.ts";
import { type LoadedRule, Matcher } from "../match/matcher.ts";
import { checkContext } from "./context.ts";
import {
  type EventRef,
  Evidence,
  EVIDENCE_ROWS,
  type EvidenceReport,
  matchesOf,
  type Outcome,
  refOf,
} from "./evidence.ts";
import { compareLabels } from "./label.ts";

/** Default corpus of events in a request. */
export const INLINE_CORPUS = "inline";

const NO_REF: EventRef = {
  corpus: INLINE_CORPUS,
  session_id: "",
  event_id: "",
  sequence: 0,
  timestamp_unix_ms: 0,
};

/** Event with its expected result. */
export interface BacktestCase {
  event_ref?: Partial<EventRef>;
  /** policy context: a partial event with at least its type */
  context: unknown;
  /** expected match, or labels of the expected rules; no expectation if absent */
  expected?: boolean | string[];
}

/**
 * Runs detections over events. An invalid event becomes a row with outcome `error`
 * and does not affect the others.
 *
 * @param limit maximum number of rows
 * @throws {SbxError} `detection.conflict`: two rules have the same id
 */
export function backtest(
  irs: readonly Compiled[],
  cases: readonly BacktestCase[],
  { limit = EVIDENCE_ROWS }: { limit?: number } = {},
): EvidenceReport {
  const run = new Run(new Matcher(irs), new Evidence(limit));
  cases.forEach((testCase, at) => run.case(testCase, at));
  return run.evidence.report();
}

class Run {
  constructor(readonly matcher: Matcher, readonly evidence: Evidence) {}

  case({ event_ref, context, expected }: BacktestCase, at: number): void {
    const fault = checkContext(context);
    const event = (fault === undefined ? normalizeContext(context as PolicyContext) : context) as Matchable;
    const defaults = fault === undefined
      ? refOf(event, INLINE_CORPUS, at + 1)
      : { ...NO_REF, sequence: at + 1 };
    const ref = { ...defaults, ...event_ref };
    if (fault !== undefined) this.#addFault(ref, "error", `events[${at}].context: ${fault}`);
    else this.#compare(event, ref, expected);
  }

  #compare(event: Matchable, ref: EventRef, expected: BacktestCase["expected"]): void {
    const hits = this.matcher.hits(event);
    if (expected === undefined || expected === true) {
      this.evidence.add(event, ref, matchesOf(event, hits));
      if (expected && !hits.length) this.#addFault(ref, "no_match", "expected a match");
      return;
    }
    const { missed, unexpected } = compareLabels(expected || [], hits.map(({ rule }) => rule));
    const message = expected ? "unexpected match" : "expected no match";
    const outcomeOf = ({ rule }: LoadedRule): Outcome =>
      unexpected.includes(rule.id) ? { outcome: "mismatch", message } : { outcome: "matched" };
    this.evidence.add(event, ref, matchesOf(event, hits, outcomeOf));
    for (const label of missed) this.#addFault(ref, "no_match", `expected label "${label}"`, label);
  }

  #addFault(event_ref: EventRef, outcome: Outcome["outcome"], message: string, rule_id = ""): void {
    const outcomeWithMessage = { outcome, message };
    const row = { event_ref, rule_id, pack_id: "", evidence_signature: "", matched_fields: [] };
    this.evidence.addFault({ ...row, outcome: outcomeWithMessage });
  }
}
