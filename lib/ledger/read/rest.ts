/** A second thread for long ledgers: it checks the rear of their chains while the caller checks the front. */
import type { Client } from "../database.ts";
import { type ChainState, type ChainTerms, EVENTS, OUTCOMES, type Rest, stateAt } from "./check.ts";

/** Rows from which the thread is worth its start. */
const ROWS_MIN = 50_000;
/** Share of a chain that the caller checks: it begins before the thread does. */
const FRONT = 0.6;

/** Sent to the thread: the rows before those that it checks. */
export interface RestRequest {
  path: string;
  terms: ChainTerms;
  events: ChainState;
  outcomes: ChainState;
}

/** From the thread: last rows of chains whose rear is good; others have none. */
export interface RestReply {
  events?: ChainState;
  outcomes?: ChainState;
  done?: true;
}

/** Rows that the thread checks. */
export interface RestThread {
  events: Rest;
  outcomes: Rest;
  stop(): void;
}

/**
 * Starts the thread.
 * @returns `undefined` for a short ledger, a damaged one, and where there is one processor
 */
export async function startRest(
  client: Client,
  path: string,
  terms: ChainTerms,
): Promise<RestThread | undefined> {
  if (navigator.hardwareConcurrency < 2) return undefined;
  try {
    const { rows: [last] } = await client.execute(
      "SELECT (SELECT max(sequence) FROM entries) AS events, (SELECT max(number) FROM outcomes) AS outcomes",
    );
    const [lastEvent, lastOutcome] = [Number(last.events), Number(last.outcomes)];
    if (lastEvent + lastOutcome < ROWS_MIN) return undefined;
    const events = await stateAt(client, EVENTS, Math.floor(lastEvent * FRONT), terms);
    const outcomes = await stateAt(client, OUTCOMES, Math.floor(lastOutcome * FRONT), terms);
    return events && outcomes && start({ path, terms, events, outcomes });
  } catch {
    // The caller reads all rows then, and names the first one that is damaged.
    return undefined;
  }
}

function start(request: RestRequest): RestThread {
  const worker = new Worker(import.meta.resolve("./rest_worker.ts"), { type: "module", name: "verify" });
  const [events, outcomes] = [0, 1].map(() => Promise.withResolvers<ChainState | undefined>());
  worker.onmessage = ({ data }: MessageEvent<RestReply>) => {
    if (data.events || data.done) events.resolve(data.events);
    if (data.outcomes || data.done) outcomes.resolve(data.outcomes);
  };
  worker.onerror = (event) => {
    event.preventDefault();
    events.resolve(undefined);
    outcomes.resolve(undefined);
  };
  worker.postMessage(request);
  return {
    events: { start: request.events, end: events.promise },
    outcomes: { start: request.outcomes, end: outcomes.promise },
    stop: () => worker.terminate(),
  };
}
