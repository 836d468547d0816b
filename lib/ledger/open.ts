import { pathToFileURL } from "node:url";
import { type Client, createClient } from "@libsql/client/sqlite3";
import { SbxError } from "../base/error/mod.ts";
import { connecting, ledgerError } from "./failure.ts";
import { BUSY_MS } from "./schema.ts";

/** A client of one ledger file. @throws SbxError `ledger.not_found` unless `create` */
export function openDatabase(path: string, { create = false } = {}): Client {
  if (!create) requireFile(path);
  return connecting(path, () => createClient({ url: pathToFileURL(path).href, timeout: BUSY_MS }));
}

function requireFile(path: string): void {
  try {
    if (Deno.statSync(path).isFile) return;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw ledgerError(error, path, "read");
  }
  throw new SbxError("ledger.not_found", `there is no ledger at ${path}`, {
    hint: "a session has one from its first boot on",
  });
}
