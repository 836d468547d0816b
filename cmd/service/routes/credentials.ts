import { join } from "node:path";
import type { Hono } from "hono";
import type { z } from "zod";
import {
  type AuditRow,
  type CredentialAdd,
  type CredentialAudit,
  type CredentialAuditQuery,
  credentialRoutes,
  type CredentialView,
} from "../../../lib/api/credential.ts";
import {
  CredentialStore,
  decoySecret,
  REF,
  type StoredEntry,
  storePath,
} from "../../../lib/credential/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import type { Home } from "../../../lib/base/home/mod.ts";
import { handle } from "../handle.ts";
import { eventsOf } from "../../../lib/service/ledger.ts";

/** Rows of an audit unless the caller asks for another number. */
const AUDIT_ROWS = 100;

/** The store of credentials, and what brokers did with them. */
export function routeCredentials(app: Hono, home: Home): void {
  const store = new CredentialStore(storePath(home));

  handle(app, credentialRoutes.list, () => ({ credentials: store.list().map(viewOf) }));
  handle(app, credentialRoutes.add, async ({ body }) => {
    const [entry] = await store.add([newCredential(body)]);
    return viewOf(entry);
  });
  handle(app, credentialRoutes.revoke, async ({ params }) => {
    if (!REF.test(params.ref)) {
      throw new SbxError("credential.not_found", "this is no ref of a credential", {
        hint: "sbx credentials list shows them",
      });
    }
    return viewOf(await store.revoke(params.ref));
  });
  handle(app, credentialRoutes.audit, ({ query }) => audit(home, query));
}

/** @throws {SbxError} `credential.invalid` for what does not go together */
function newCredential({ provider, secret, label, host, decoy }: CredentialAdd) {
  if ((provider === "mcp") !== (host !== undefined)) {
    throw new SbxError(
      "credential.invalid",
      provider === "mcp"
        ? "a credential of mcp needs the host that it may be sent to"
        : `${provider} has hosts of its own; a credential of it takes none`,
      { hint: "host goes with provider mcp, and with no other" },
    );
  }
  if (secret === undefined && !decoy) {
    throw new SbxError("credential.invalid", "there is no secret to keep", {
      hint: "only a decoy may go without",
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

/** What may be shown of an entry: its secret stays where it is, sealed or not. */
function viewOf({ sealed: _, vms: __, decoy, ...rest }: StoredEntry): CredentialView {
  return { ...rest, decoy: decoy === true };
}

async function audit(home: Home, query: z.infer<typeof CredentialAuditQuery>): Promise<CredentialAudit> {
  const { ref, outcome, session, limit = AUDIT_ROWS } = query;
  const rows: AuditRow[] = [];
  const unreadable: string[] = [];
  for (const id of await sessionsOf(home, session)) {
    const kept = await substitutionsOf(join(home.dir, "ledgers", id, "session.db")).catch(() => undefined);
    if (kept === undefined) unreadable.push(id);
    else rows.push(...kept);
  }
  const wanted = rows
    .filter((row) =>
      (ref === undefined || row.credential_ref === ref) && (!outcome || row.outcome === outcome)
    )
    .toSorted((a, b) => b.timestamp_unix_ms - a.timestamp_unix_ms);
  return { rows: wanted.slice(0, limit), truncated: wanted.length > limit, unreadable };
}

/** Sessions that have a ledger, those of VMs that are gone included. */
async function sessionsOf(home: Home, session?: string): Promise<string[]> {
  const names = await Array.fromAsync(Deno.readDir(join(home.dir, "ledgers")), ({ name }) => name).catch(
    () => [],
  );
  return names.filter((name) => session === undefined || name === session).sort();
}

async function substitutionsOf(path: string): Promise<AuditRow[]> {
  const rows: AuditRow[] = [];
  for await (const { common, credential } of eventsOf(path, { family: "credential" })) {
    const { session_id, event_id, timestamp_unix_ms } = common;
    if (credential) rows.push({ session_id, event_id, timestamp_unix_ms, ...credential.substitution });
  }
  return rows;
}
