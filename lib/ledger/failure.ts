/** What fails with the database. Apart from it, so that whoever only hands rows over need not load it. */
import { asSbxError, SbxError } from "../base/error/mod.ts";

/** Opens a database. @throws SbxError `ledger.unavailable` when there is no way to its file */
export function connecting<T>(path: string, connect: () => T): T {
  try {
    return connect();
  } catch (cause) {
    throw new SbxError("ledger.unavailable", `the ledger ${path} cannot be opened`, {
      cause,
      hint: "check that its folder is there and that you may write to it",
    });
  }
}

/** What the database says when there is no room: for rows, or for its log and the index of that, made anew after a failure. */
const FULL = new Set(["SQLITE_FULL", "SQLITE_IOERR_SHMSIZE"]);

/**
 * What a failure of the database means for the user; its own text stays in `cause`.
 *
 * @param doing what was tried
 */
export function ledgerError(error: unknown, path: string, doing: "read" | "written" = "written"): SbxError {
  if (error instanceof SbxError) return error;
  const code = (error as { code?: string })?.code ?? "";
  if (code.startsWith("SQLITE_NOTADB") || code.startsWith("SQLITE_CORRUPT")) {
    return new SbxError("ledger.invalid", `the ledger ${path} is damaged or is no ledger`, {
      cause: error,
      hint: `sbx verify ${path} names the first bad event`,
    });
  }
  if (code.startsWith("SQLITE")) {
    const full = FULL.has(code);
    return new SbxError(
      "ledger.unavailable",
      `the ledger ${path} cannot be ${doing}${full ? ": its disk or its size limit is full" : ""}`,
      {
        cause: error,
        hint: full
          ? "free some space, or raise ledger.max_size_mb: the ledger goes on where it stopped"
          : undefined,
      },
    );
  }
  return asSbxError(error, `reading the ledger ${path}`);
}
