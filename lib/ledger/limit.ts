/**
 * Size limit of a ledger, and the part of it that is kept for the end of the session
 * (docs/design/contracts/12-ledger.md §12).
 */
import { SbxError } from "../base/error/mod.ts";
import { PAGE_BYTES } from "./schema.ts";

/** Most `bytes` of the reserve; of a small ledger it is a quarter. */
const RESERVE_BYTES = 16 * 1024 * 1024;
/** Most pages of an SQLite database. */
const PAGES_MAX = 4_294_967_294;

/** Limit of a ledger, in pages of its database. */
export interface PageLimit {
  /** pages for everything; beyond them the ledger is full */
  ordinary: number;
  /** pages with the reserve */
  all: number;
}

/** @param maxBytes size in `bytes`; default: no limit but the disk */
export function pageLimit(maxBytes?: number): PageLimit {
  const all = maxBytes ? Math.ceil(maxBytes / PAGE_BYTES) : PAGES_MAX;
  const reserve = maxBytes ? Math.floor(reserveBytes(maxBytes) / PAGE_BYTES) : 0;
  return { ordinary: all - reserve, all };
}

/** `bytes` that rows may take while the ledger is full: refusals, and ends of events allowed before. */
export function refusalBytes(maxBytes?: number): number {
  return maxBytes ? reserveBytes(maxBytes) / 2 : 0;
}

function reserveBytes(maxBytes: number): number {
  return Math.min(RESERVE_BYTES, maxBytes / 4);
}

/** Error of a ledger that has reached its limit; its rows so far are written. */
export function fullError(path: string): SbxError {
  return new SbxError("ledger.full", `the ledger ${path} cannot be written: its size limit is full`, {
    hint: "raise ledger.max_size_mb: the ledger continues where it stopped",
  });
}
