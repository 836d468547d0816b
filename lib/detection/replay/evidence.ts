/** Evidence of a backtest or a hunt: counts, and rows that differ from each other (contracts.md §6, "Evidence-diverse"). */
import { canonicalJson, valueAt } from "../../event/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import type { Matchable } from "../match/index_node.ts";
import type { LoadedRule } from "../match/matcher.ts";

/** Rows of an answer unless its caller asks for another number, and the most (spec.md, "Limits": evidence rows). */
export const EVIDENCE_ROWS = 100;
export const EVIDENCE_ROWS_MAX = 1000;

/** Where an event is from. */
export interface EventRef {
  /** `inline`, `session_db`, or what a fixture says */
  corpus: string;
  session_id: string;
  event_id: string;
  sequence: number;
  timestamp_unix_ms: number;
}

/** A field that a rule looked at, with the event's value. */
export interface MatchedField {
  path: string;
  value: unknown;
}

/** What became of one event and one rule. */
export interface Outcome {
  /**
   * `matched` as it may; `mismatch`: it matched and should not have; `no_match`: it should have matched and did not;
   * `error`: the event is none
   */
  outcome: "matched" | "no_match" | "mismatch" | "error";
  /** what was expected, or what is wrong */
  message?: string;
}

export interface EvidenceRow {
  event_ref: EventRef;
  /** "" in the row of an event that no rule matched */
  rule_id: string;
  pack_id: string;
  evidence_signature: string;
  matched_fields: MatchedField[];
  outcome: Outcome;
}

/** One rule that has something to say of an event. */
export type Found = Pick<EvidenceRow, "rule_id" | "pack_id" | "matched_fields"> & { outcome?: Outcome };

const MATCHED: Outcome = { outcome: "matched" };

/** Answer of backtest and hunt. */
export interface EvidenceReport {
  /** pairs of event and rule */
  total_matches: number;
  /** distinct signatures among them */
  unique_evidence_matches: number;
  /** there are more distinct ones than rows */
  truncated: boolean;
  rows: EvidenceRow[];
}

/**
 * What two events have in common when they are the same evidence: BLAKE3 hex of the compact, sorted JSON of type and
 * subject, the family's object.
 */
export function signatureOf(event: Matchable): string {
  const { event_type } = event.common;
  const family = event_type.split(".", 1)[0];
  const subject = (event as unknown as Record<string, unknown>)[family];
  return blake3(canonicalJson({ event_type, subject }));
}

/** The fields by which a rule matched. */
export function matchedFields(event: Matchable, { rule }: Pick<LoadedRule, "rule">): MatchedField[] {
  return rule.matchers.map(({ field_path }) => ({ path: field_path, value: valueAt(event, field_path) }));
}

/** What the rules that match an event say of it. */
export function foundBy(
  event: Matchable,
  hits: readonly LoadedRule[],
  outcomeOf?: (hit: LoadedRule) => Outcome,
): Found[] {
  return hits.map((hit) => ({
    rule_id: hit.rule.id,
    pack_id: hit.pack_id,
    matched_fields: matchedFields(event, hit),
    ...(outcomeOf && { outcome: outcomeOf(hit) }),
  }));
}

/** Where an event says that it is from. */
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

/** Collects matches: counts all of them, and keeps the first row of each distinct signature up to a limit. */
export class Evidence {
  readonly #limit: number;
  readonly #seen = new Set<string>();
  readonly #rows: EvidenceRow[] = [];
  readonly #faults: EvidenceRow[] = [];
  #total = 0;

  constructor(limit = EVIDENCE_ROWS) {
    this.#limit = limit;
  }

  /** Counts what was found about an event. */
  add(event: Matchable, event_ref: EventRef, found: readonly Found[]): void {
    if (!found.length) return;
    this.#total += found.length;
    const evidence_signature = signatureOf(event);
    const isNew = !this.#seen.has(evidence_signature);
    this.#seen.add(evidence_signature);
    for (const [at, { rule_id, pack_id, matched_fields, outcome = MATCHED }] of found.entries()) {
      const row = () => ({ event_ref, rule_id, pack_id, evidence_signature, matched_fields, outcome });
      if (isNew && at === 0 && this.#rows.length < this.#limit) this.#rows.push(row());
      else if (outcome.outcome === "mismatch") this.fault(row());
    }
  }

  /** Keeps a row that is about no match, or about one that should not be; it counts as none. */
  fault(row: EvidenceRow): void {
    if (this.#faults.length < this.#limit) this.#faults.push(row);
  }

  /** What was found; rows of what went wrong come first, because they are what somebody has to look at. */
  report(): EvidenceReport {
    const kept = this.#rows.slice(0, this.#limit - this.#faults.length);
    return {
      total_matches: this.#total,
      unique_evidence_matches: this.#seen.size,
      truncated: this.#seen.size > kept.length,
      rows: [...this.#faults, ...kept],
    };
  }
}
