/**
 * Evidence of a backtest or hunt: counts, and one row per distinct signature
 * (docs/design/contracts/06-detection.md §6).
 */
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { testedFields } from "../compiled.ts";
import type { Matchable } from "../match/index_node.ts";
import type { LoadedRule } from "../match/matcher.ts";
import { EVIDENCE_ROWS } from "./limit.ts";

export { EVIDENCE_ROWS, EVIDENCE_ROWS_MAX } from "./limit.ts";

/** Reference to an event. */
export interface EventRef {
  /** `inline`, `session_db`, or the name a fixture gives */
  corpus: string;
  session_id: string;
  event_id: string;
  sequence: number;
  timestamp_unix_ms: number;
}

/** Field tested by a rule, with the event's value. */
export interface MatchedField {
  path: string;
  value: unknown;
}

/** Outcome of one event and one rule. */
export interface Outcome {
  /**
   * `matched`: a match, as expected if there is an expectation; `mismatch`: an unexpected match; `no_match`:
   * an expected match is missing; `error`: the event is invalid
   */
  outcome: "matched" | "no_match" | "mismatch" | "error";
  /** the expectation or the error */
  message?: string;
}

export interface EvidenceRow {
  event_ref: EventRef;
  /** "" in the row of an event without a match */
  rule_id: string;
  pack_id: string;
  evidence_signature: string;
  matched_fields: MatchedField[];
  outcome: Outcome;
}

/** Match of one rule on an event. */
export type RuleMatch = Pick<EvidenceRow, "rule_id" | "pack_id" | "matched_fields"> & { outcome?: Outcome };

const MATCHED: Outcome = { outcome: "matched" };

/** Report of a backtest or hunt. */
export interface EvidenceReport {
  /** pairs of event and rule */
  total_matches: number;
  /** distinct signatures among them */
  unique_evidence_matches: number;
  /** true if there are more distinct signatures than rows */
  truncated: boolean;
  rows: EvidenceRow[];
}

/**
 * Evidence signature of an event: BLAKE3 hex of the compact JSON, with sorted keys, of its type and
 * subject (the family's object).
 */
export function signatureOf(event: Matchable): string {
  const { event_type } = event.common;
  const family = event_type.split(".", 1)[0];
  const subject = (event as unknown as Record<string, unknown>)[family];
  return blake3(canonicalJson({ event_type, subject }));
}

/** Matches of the rules that hit an event. */
export function matchesOf(
  event: Matchable,
  hits: readonly LoadedRule[],
  outcomeOf?: (hit: LoadedRule) => Outcome,
): RuleMatch[] {
  return hits.map((hit) => ({
    rule_id: hit.rule.id,
    pack_id: hit.pack_id,
    matched_fields: testedFields(hit.rule, event),
    ...(outcomeOf && { outcome: outcomeOf(hit) }),
  }));
}

/**
 * Reference of an event.
 *
 * @param at sequence number for an event without one
 */
export function refOf(event: Matchable, corpus: string, at = 0): EventRef {
  const common: Partial<EventRef> = event.common as Partial<EventRef>;
  return {
    corpus,
    session_id: common.session_id ?? "",
    event_id: common.event_id ?? "",
    sequence: common.sequence ?? at,
    timestamp_unix_ms: common.timestamp_unix_ms ?? 0,
  };
}

/** Collects matches: counts all, and stores the first row of each distinct signature up to a limit. */
export class Evidence {
  readonly #limit: number;
  readonly #seen = new Set<string>();
  readonly #rows: EvidenceRow[] = [];
  readonly #faults: EvidenceRow[] = [];
  #total = 0;

  constructor(limit = EVIDENCE_ROWS) {
    this.#limit = limit;
  }

  /** Adds the matches of an event. */
  add(event: Matchable, event_ref: EventRef, matches: readonly RuleMatch[]): void {
    if (!matches.length) return;
    this.#total += matches.length;
    const evidence_signature = signatureOf(event);
    const isNew = !this.#seen.has(evidence_signature);
    this.#seen.add(evidence_signature);
    for (const [at, { rule_id, pack_id, matched_fields, outcome = MATCHED }] of matches.entries()) {
      const row = () => ({ event_ref, rule_id, pack_id, evidence_signature, matched_fields, outcome });
      if (isNew && at === 0 && this.#rows.length < this.#limit) this.#rows.push(row());
      else if (outcome.outcome === "mismatch") this.addFault(row());
    }
  }

  /** Adds a row for an error, a missing match or an unexpected match; it is not counted as a match. */
  addFault(row: EvidenceRow): void {
    if (this.#faults.length < this.#limit) this.#faults.push(row);
  }

  /** Builds the report. Fault rows come first, because they need attention; they take no place of a match. */
  report(): EvidenceReport {
    return {
      total_matches: this.#total,
      unique_evidence_matches: this.#seen.size,
      truncated: this.#seen.size > this.#rows.length,
      rows: [...this.#faults, ...this.#rows],
    };
  }
}
