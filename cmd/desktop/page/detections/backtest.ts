/** A detection over every event of a recorded session, part by part. */
import { api, type Evidence } from "../../api/routes.ts";

/** Most events and `characters` of events in one request; the service takes 10 MiB. */
const EVENTS_MAX = 500;
const CHARS_MAX = 4 * 1024 * 1024;
const PAGE_SIZE = "1000";
/** Rows that are kept. */
const ROWS_MAX = 200;

/** Progress of a backtest. */
export interface Backtest {
  /** events that were tested */
  tested: number;
  /** matching pairs of event and rule */
  matches: number;
  evidence: Evidence;
}

type Fixture = Awaited<ReturnType<typeof api.contexts>>["contexts"][number];

/**
 * Tests a detection on a session.
 *
 * @param detection a pack or a rule
 * @param onProgress gets the state after each part
 * @throws {ApiError}; the signal's reason, when aborted
 */
export async function backtest(
  session: string,
  detection: Record<string, unknown>,
  onProgress: (state: Backtest) => void,
  signal: AbortSignal,
): Promise<void> {
  let state: Backtest = { tested: 0, matches: 0, evidence: emptyEvidence() };
  onProgress(state);
  for await (const part of partsOf(session)) {
    signal.throwIfAborted();
    const events = part.map(({ event_ref, context }) => ({ event_ref, context }));
    const found = await api.backtest({ ...detection, events });
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

/** Adds what one part found; evidence of one signature and rule is shown once. */
function sumOf({ tested, matches, evidence }: Backtest, count: number, found: Evidence): Backtest {
  const known = new Set(evidence.rows.map(keyOf));
  const fresh = found.rows.filter((row) => !known.has(keyOf(row)));
  const rows = [...evidence.rows, ...fresh];
  return {
    tested: tested + count,
    matches: matches + found.total_matches,
    evidence: {
      total_matches: matches + found.total_matches,
      unique_evidence_matches: rows.length,
      truncated: evidence.truncated || found.truncated || rows.length > ROWS_MAX,
      rows: rows.slice(0, ROWS_MAX),
    },
  };
}

const keyOf = ({ rule_id, evidence_signature }: Evidence["rows"][number]) =>
  `${rule_id} ${evidence_signature}`;

function emptyEvidence(): Evidence {
  return { total_matches: 0, unique_evidence_matches: 0, truncated: false, rows: [] };
}
