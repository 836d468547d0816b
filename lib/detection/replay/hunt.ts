/** A hunt: detections over the timeline of a session (contracts.md §6). */
import type { DetectionIr } from "../ir.ts";
import { Matcher } from "../match/matcher.ts";
import type { Matchable } from "../match/index_node.ts";
import { Evidence, EVIDENCE_ROWS, type EvidenceReport, foundBy, refOf } from "./evidence.ts";

/** Corpus of events that come from a session's ledger. */
export const SESSION_CORPUS = "session_db";

export interface HuntOptions {
  /** most rows of the answer */
  limit?: number;
  corpus?: string;
  signal?: AbortSignal;
}

/**
 * Runs detections over events as they come, such as page after page of a ledger. They are sbx's own records: nothing
 * is looked at but what the rules compare.
 *
 * @throws the signal's reason when it is aborted
 */
export async function hunt(
  irs: readonly DetectionIr[],
  events: AsyncIterable<Matchable> | Iterable<Matchable>,
  { limit = EVIDENCE_ROWS, corpus = SESSION_CORPUS, signal }: HuntOptions = {},
): Promise<EvidenceReport> {
  const matcher = new Matcher(irs);
  const evidence = new Evidence(limit);
  for await (const event of events) {
    signal?.throwIfAborted();
    evidence.add(event, refOf(event, corpus), foundBy(event, matcher.hits(event)));
  }
  return evidence.report();
}
