/**
 * Copies of ledgers in folders where the database may write nothing: on read-only media, or of another user.
 */
import { basename, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";

/** Parts of a ledger on disk: the file, and the writes that are not folded into it yet. */
const PARTS = ["", "-wal"];
/** Copies until one was not written to meanwhile. */
const TRIES = 3;

/** A copy, which its maker removes. */
export interface LedgerCopy {
  path: string;
  remove(): void;
}

/** Copies a ledger into a temporary folder of this user. @throws {SbxError} `ledger.unavailable` */
export function copyLedger(path: string): LedgerCopy {
  let dir: string | undefined;
  const remove = () => {
    if (dir !== undefined) Deno.removeSync(dir, { recursive: true });
  };
  try {
    dir = Deno.makeTempDirSync({ prefix: "sbx-ledger-" });
    const copy = join(dir, basename(path));
    for (let left = TRIES; left > 0; left--) {
      const before = stampOf(path);
      for (const part of PARTS) {
        if (part === "" || exists(path + part)) Deno.copyFileSync(path + part, copy + part);
      }
      for (const part of PARTS) if (exists(copy + part)) Deno.chmodSync(copy + part, 0o600);
      if (stampOf(path) === before) return { path: copy, remove };
    }
    throw new Error("it changes");
  } catch (cause) {
    remove();
    throw new SbxError("ledger.unavailable", `the ledger ${path} cannot be read where it is, nor copied`, {
      cause,
      hint: "copy it to a folder that you may write to, after its session has ended",
    });
  }
}

function stampOf(path: string): string {
  return PARTS.map((part) => {
    if (!exists(path + part)) return "";
    const { ino, size, mtime } = Deno.statSync(path + part);
    return `${ino} ${size} ${mtime?.getTime()}`;
  }).join();
}

function exists(path: string): boolean {
  try {
    Deno.statSync(path);
    return true;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
