/**
 * What one model call may use and has used, beside its event (docs/design/contracts/04-profiles.md §4,
 * "Budgets").
 */

/** Most that the calls of one model in a request can use. */
export interface BillPart {
  model: string;
  /** tokens */
  input: number;
  /** tokens */
  output: number;
}

/** Most that a request can use, read from its whole body. */
export interface Bill {
  /** one for each model: several in a batch */
  parts: readonly BillPart[];
  /** most tokens of output by the limits that the request names itself; absent: it names none */
  named?: number;
  /** the length of the answer's text bounds its output where the provider does not count it */
  textual: boolean;
  /** answers that are asked for; absent: 1 */
  answers?: number;
  /** why the request cannot be counted, as a clause */
  fault?: string;
  /** why its tokens have no known price, as a clause */
  unpriced?: string;
}

/** The answer of a call, as the network saw it. */
export interface CallUse {
  /** nothing of the request was sent */
  unsent?: boolean;
  /** the answer was read to its end, and could be read */
  complete: boolean;
  /** `bytes` of text in the answer; absent: unknown */
  text?: number;
  /** key of an answer that can be fetched later: its host and its id */
  later?: string;
  /** the provider answers later, so nothing is counted yet */
  pending?: boolean;
}

/** Counts of a provider, for an answer that was fetched later. */
export interface LaterUse {
  /** as in {@linkcode CallUse.later} */
  key: string;
  input: number;
  output: number;
  /** answers that were counted: each item of a batch */
  answers: number;
}
