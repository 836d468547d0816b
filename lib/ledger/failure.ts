/** Failures of the database. Loads no database, so that the thread that only sends rows need not either. */
import { asSbxError, SbxError } from "../base/error/mod.ts";

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

/** Database errors without space: for rows, or for the log and its index, which are created again after a failure. */
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
