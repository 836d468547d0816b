/**
 * Credentials as the API shows and takes them, and the audit of their use
 * (docs/design/contracts/09-credentials.md §9).
 */
import { join } from "node:path";
import type { z } from "zod";
import type {
  AuditRow,
  CredentialAdd,
  CredentialAudit,
  CredentialAuditQuery,
  CredentialView,
} from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import {
  decoySecret,
  holdsToken,
  looksSecret,
  type NewCredential,
  type StoredEntry,
} from "../../credential/mod.ts";
import { eventsOf } from "../record/ledger.ts";

/** Rows of an audit without a limit in the request. */
const AUDIT_ROWS = 100;

/** Checks a request for a credential. @throws {SbxError} `credential.invalid`: its fields do not fit together */
export function newCredential({ provider, secret, label, host, decoy }: CredentialAdd): NewCredential {
  requireHost(provider, host);
  if (label !== undefined) requireNoKey("label", label);
  // Clouds give hosts random names, with dots.
  if (host !== undefined && (!host.includes(".") || holdsToken(host))) requireNoKey("host", host);
  if (secret === undefined && !decoy) {
    throw new SbxError("credential.invalid", "the secret is missing", {
      hint: "give a secret; only a decoy can do without",
    });
  }
  return {
    provider,
    secret: secret ?? decoySecret(provider),
    label,
    ...(host !== undefined && { hosts: [host] }),
    ...(decoy && { decoy }),
  };
}

/** A host belongs to the provider mcp, and to no other. */
function requireHost(provider: CredentialAdd["provider"], host: string | undefined): void {
  if ((provider === "mcp") === (host !== undefined)) return;
  const problem = provider === "mcp"
    ? "a credential of mcp needs the host that it may be sent to"
    : `${provider} has hosts of its own; its credentials take no host`;
  throw new SbxError("credential.invalid", problem, {
    hint: "give host with the provider mcp, and with no other",
  });
}

function requireNoKey(field: "label" | "host", text: string): void {
  if (!looksSecret(text)) return;
  throw new SbxError("credential.invalid", `the ${field} looks like a key, and lists would show it`, {
    hint: `give the key as the secret, and another ${field}`,
  });
}

/** An entry without its secret, sealed or not. */
export function credentialView({ sealed: _, vms: __, decoy, ...rest }: StoredEntry): CredentialView {
  return { ...rest, decoy: decoy === true };
}

/** Lists the uses of credentials, the latest first, from the ledgers of all sessions or of one. */
export async function auditCredentials(
  home: Home,
  query: z.infer<typeof CredentialAuditQuery>,
): Promise<CredentialAudit> {
  const { ref, outcome, session, limit = AUDIT_ROWS } = query;
  const all: AuditRow[] = [];
  const unreadable: string[] = [];
  for (const id of await listLedgers(home, session)) {
    const rows = await readSubstitutions(join(home.dir, "ledgers", id, "session.db")).catch(() => undefined);
    if (rows === undefined) unreadable.push(id);
    else all.push(...rows);
  }
  const rows = all
    .filter((row) =>
      (ref === undefined || row.credential_ref === ref) && (!outcome || row.outcome === outcome)
    )
    .toSorted((a, b) => b.timestamp_unix_ms - a.timestamp_unix_ms);
  return { rows: rows.slice(0, limit), truncated: rows.length > limit, unreadable };
}

/** Ids of sessions with a ledger, including sessions of deleted VMs. */
async function listLedgers(home: Home, session?: string): Promise<string[]> {
  const entries = Deno.readDir(join(home.dir, "ledgers"));
  const names = await Array.fromAsync(entries, ({ name }) => name).catch((): string[] => []);
  return names.filter((name) => session === undefined || name === session).sort();
}

async function readSubstitutions(ledger: string): Promise<AuditRow[]> {
  const rows: AuditRow[] = [];
  for await (const { common, credential } of eventsOf(ledger, { family: "credential" })) {
    const { session_id, event_id, timestamp_unix_ms } = common;
    if (credential) rows.push({ session_id, event_id, timestamp_unix_ms, ...credential.substitution });
  }
  return rows;
}
