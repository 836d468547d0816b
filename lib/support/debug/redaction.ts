/** The redaction of a home's reports and bundles: its secrets, and the names of its machine. */
import { userInfo } from "node:os";
import type { Home } from "../../base/home/mod.ts";
import { Redactor } from "../../base/redact/mod.ts";
import { CredentialStore, Finder, storePath } from "../../credential/mod.ts";
import { within } from "./probe.ts";

/** The redaction of this machine: its user, its credentials, and on request its hosts. */
export interface MachineRedactor {
  redactor: Redactor;
  /** why the secrets of the credential store are found by their shapes only */
  problem?: string;
}

/** Makes the redaction of a home's reports and bundles. Never throws. */
export async function machineRedactor(home: Home, { hosts = false } = {}): Promise<MachineRedactor> {
  const known = await within(openFinder(home), undefined);
  const user = userName();
  const redactor = new Redactor({
    ...(known && { known }),
    ...(user !== undefined && user !== "root" && { user }),
    ...(hosts && { hosts: hostNames() }),
  });
  const problem = "the credential store cannot be opened: its secrets are redacted by their shapes only";
  return { redactor, ...(!known && { problem }) };
}

async function openFinder(home: Home): Promise<Finder> {
  const store = new CredentialStore(storePath(home));
  const { file } = store.read();
  const entries = file?.entries.filter(({ sealed }) => sealed !== undefined) ?? [];
  return new Finder(file ? await store.open(file, entries) : []);
}

function userName(): string | undefined {
  try {
    return userInfo().username;
  } catch {
    return undefined;
  }
}

function hostNames(): string[] {
  const name = Deno.hostname();
  return [name, name.split(".")[0]];
}
