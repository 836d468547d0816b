/** What a ledger and the thread that writes it say to each other. */
import { SbxError } from "../base/error/mod.ts";
import type { Rows } from "./batch.ts";

/** To the thread. What has an `id` is answered, in order; rows are not. */
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
  /** as `maxBytes` of the options */
  | { do: "limit"; id: number; maxBytes?: number }
  | { do: "close"; id: number };

/** From the thread: an answer, or that it could not write, told once until a flush has succeeded. */
export type Reply =
  | { id: number; value: unknown }
  | { id: number; error: PlainError }
  | { failed: PlainError };

/** Answer to `open`: how many rows each chain has. */
export interface Opened {
  events: number;
  outcomes: number;
}

/** An error as it crosses between threads. */
export interface PlainError {
  code: string;
  message: string;
  hint?: string;
  cause: string;
}

export function plainError({ code, message, hint, cause }: SbxError): PlainError {
  return { code, message, ...(hint !== undefined && { hint }), cause: String(cause) };
}

export function knownError({ code, message, hint, cause }: PlainError): SbxError {
  return new SbxError(code, message, { cause, ...(hint !== undefined && { hint }) });
}
