/** Messages between a ledger and its writing thread. */
import { SbxError } from "../base/error/mod.ts";
import type { Rows } from "./batch.ts";

/** To the thread. Requests with an `id` are answered in order; rows are not. */
export type Request =
  | {
    do: "open";
    id: number;
    path: string;
    sessionId: string;
    maxBytes?: number;
    progress: SharedArrayBuffer;
  }
  | { do: "write"; rows: Rows }
  | { do: "flush"; id: number }
  /** flushes, and answers the last event */
  | { do: "last"; id: number }
  /** `maxBytes` as in the options */
  | { do: "limit"; id: number; maxBytes?: number }
  | { do: "close"; id: number };

/** From the thread: an answer, or a failed write, which is reported once until a flush succeeds. */
export type Reply =
  | { id: number; value: unknown }
  | { id: number; error: PlainError }
  | { failed: PlainError };

/** Answer to `open`: number of rows in each chain. */
export interface Opened {
  events: number;
  outcomes: number;
}

/** An error as sent between threads. */
export interface PlainError {
  code: string;
  message: string;
  hint?: string;
  cause: string;
}

export function toPlainError({ code, message, hint, cause }: SbxError): PlainError {
  return { code, message, ...(hint !== undefined && { hint }), cause: String(cause) };
}

export function fromPlainError({ code, message, hint, cause }: PlainError): SbxError {
  return new SbxError(code, message, { cause, ...(hint !== undefined && { hint }) });
}
