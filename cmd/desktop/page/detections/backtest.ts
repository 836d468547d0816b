/** Hunts in one session or in all, and tests of every event of a session, part by part. */
import { ApiError } from "../../api/client.ts";
import { api, type EvidenceResult } from "../../api/routes.ts";
import type { Draft } from "./draft.ts";

/** Most events and `characters` of events in one request; the service takes 10 MiB. */
const EVENTS_MAX = 500;
const CHARS_MAX = 4 * 1024 * 1024;
const PAGE_SIZE = "1000";
/** Rows that are kept. */
const ROWS_MAX = 200;

/** Progress of a hunt or a test. */
export interface Progress {
  /** sessions or events that are done */
  done: number;
  /** matching pairs of event and rule */
  matches: number;
  evidence: EvidenceResult;
  /** sessions whose record could not be read */
  failed: number;
}

type Fixture = Awaited<ReturnType<typeof api.contexts>>["contexts"][number];

const begin = (): Progress => ({
  done: 0,
  matches: 0,
  evidence: { total_matches: 0, unique_evidence_matches: 0, truncated: false, rows: [] },
  failed: 0,
});

/** Status of a detection that the service does not take, in every session. */
const INVALID = new Set([400, 413, 422]);

/**
 * Hunts in sessions, one after another; of several, one whose record cannot be read leaves the others.
 *
 * @param onProgress gets the state after each session
 * @throws {ApiError}; the signal's reason, when aborted
 */
export async function hunt(
  sessions: readonly string[],
  draft: Draft,
  onProgress: (state: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  let state = begin();
  onProgress(state);
  for (const session of sessions) {
    signal.throwIfAborted();
    try {
      const found = await api.hunt(session, "rule" in draft ? { rules: [draft.rule] } : draft);
      state = sumOf(state, 1, found);
    } catch (error) {
      if (sessions.length === 1 || !(error instanceof ApiError) || INVALID.has(error.status)) throw error;
      state = { ...state, done: state.done + 1, failed: state.failed + 1 };
    }
    signal.throwIfAborted();
    onProgress(state);
  }
}

/**
 * Tests a detection on every event of a session.
 *
 * @param onProgress gets the state after each part
 * @throws {ApiError}; the signal's reason, when aborted
 */
export async function backtest(
  session: string,
  draft: Draft,
  onProgress: (state: Progress) => void,
  signal: AbortSignal,
): Promise<void> {
  let state = begin();
  onProgress(state);
  for await (const part of partsOf(session)) {
    signal.throwIfAborted();
    const events = part.map(({ event_ref, context }) => ({ event_ref, context }));
    const found = await api.backtest({ ...draft, events });
    signal.throwIfAborted();
    state = sumOf(state, part.length, found);
    onProgress(state);
  }
}

async function* partsOf(session: string): AsyncGenerator<Fixture[]> {
  let part: Fixture[] = [];
  let chars = 0;
  let cursor: string | undefined;
  do {
    const page = await api.contexts(session, { cursor, limit: PAGE_SIZE });
    for (const fixture of page.contexts) {
      const size = JSON.stringify(fixture.context).length;
      if (part.length === EVENTS_MAX || chars + size > CHARS_MAX && part.length > 0) {
        yield part;
        [part, chars] = [[], 0];
      }
      part.push(fixture);
      chars += size;
    }
    cursor = page.next_cursor;
  } while (cursor !== undefined);
  if (part.length > 0) yield part;
}

/** Adds what one part found; evidence of one signature and rule is shown once a session. */
function sumOf(
  { done, matches, evidence, failed }: Progress,
  count: number,
  found: EvidenceResult,
): Progress {
  const known = new Set(evidence.rows.map(keyOf));
  const fresh = found.rows.filter((row) => !known.has(keyOf(row)));
  const rows = [...evidence.rows, ...fresh];
  return {
    failed,
    done: done + count,
    matches: matches + found.total_matches,
    evidence: {
      total_matches: matches + found.total_matches,
      unique_evidence_matches: rows.length,
      truncated: evidence.truncated || found.truncated || rows.length > ROWS_MAX,
      rows: rows.slice(0, ROWS_MAX),
    },
  };
}

const keyOf = ({ rule_id, evidence_signature, event_ref }: EvidenceResult["rows"][number]) =>
  `${event_ref.session_id} ${rule_id} ${evidence_signature}`;
