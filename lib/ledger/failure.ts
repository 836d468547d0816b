/**
 * Failures of the database, and the size limit of a ledger. Loads no database, so that the thread that only
 * sends rows need not either.
 */
import { asSbxError, SbxError } from "../base/error/mod.ts";
import { PAGE_BYTES } from "./schema.ts";

/** Opens a database. @throws {SbxError} `ledger.unavailable`: its file cannot be reached */
export function connect<T>(path: string, open: () => T): T {
  try {
    return open();
  } catch (cause) {
    throw new SbxError("ledger.unavailable", `the ledger ${path} cannot be opened`, {
      cause,
      hint: "check that its folder exists and is writable",
    });
  }
}

/**
 * Database errors without space: for rows, or for the log and its index, which are
 * created again after a failure.
 */
const FULL = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"]);

/**
 * Converts an error of the database; its own text stays in `cause`.
 *
 * @param action the failed action
 */
export function ledgerError(error: unknown, path: string, action: "read" | "written" = "written"): SbxError {
  if (error instanceof SbxError) return error;
  const code = (error as { code?: string })?.code ?? "";
  if (code.startsWith("SQLITE_NOTADB") || code.startsWith("SQLITE_CORRUPT")) {
    return new SbxError("ledger.invalid", `the ledger ${path} is damaged, or not a ledger`, {
      cause: error,
      hint: `sbx verify ${path} names the first bad event`,
    });
  }
  if (code.startsWith("SQLITE")) {
    const full = FULL.has(code);
    return new SbxError(
      "ledger.unavailable",
      `the ledger ${path} cannot be ${action}${full ? ": its disk or its size limit is full" : ""}`,
      {
        cause: error,
        hint: full
          ? "free some space, or raise ledger.max_size_mb: the ledger continues where it stopped"
          : undefined,
      },
    );
  }
  return asSbxError(error, `reading the ledger ${path}`);
}

// Size limit of a ledger, and the part of it that is kept for the end of the session
// (docs/design/contracts/12-ledger.md §12).

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
