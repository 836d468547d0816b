/** Hunt: detections over the recorded events of a session (docs/design/contracts/06-detection.md §6). */
import type { Compiled } from "../compiled.ts";
import type { Matchable } from "../match/index_node.ts";
import { Matcher } from "../match/matcher.ts";
import { Evidence, EVIDENCE_ROWS, type EvidenceReport, matchesOf, refOf } from "./evidence.ts";

/** Corpus of events from a session's ledger. */
export const SESSION_CORPUS = "session_db";

export interface HuntOptions {
  /** maximum number of rows in the report */
  limit?: number;
  corpus?: string;
  signal?: AbortSignal;
}

/**
 * Runs detections over a stream of events, such as the pages of a ledger. Events are sbx's own
 * records and are not validated.
 *
 * @throws the signal's reason, when aborted
 */
export async function hunt(
  irs: readonly Compiled[],
  events: AsyncIterable<Matchable> | Iterable<Matchable>,
  { limit = EVIDENCE_ROWS, corpus = SESSION_CORPUS, signal }: HuntOptions = {},
): Promise<EvidenceReport> {
  const matcher = new Matcher(irs);
  const evidence = new Evidence(limit);
  for await (const event of events) {
    signal?.throwIfAborted();
    evidence.add(event, refOf(event, corpus), matchesOf(event, matcher.hits(event)));
  }
  return evidence.report();
}
