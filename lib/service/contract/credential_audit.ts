/**
 * Uses of credentials, from the records of all sessions
 * (docs/design/contracts/09-credentials.md §9, "Audit").
 */
import { join } from "node:path";
import type { z } from "zod";
import type { AuditRow, CredentialAudit, CredentialAuditQuery, CredentialUse } from "../../client/api/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import { CredentialStore, type StoredEntry, storePath } from "../../credential/mod.ts";
import { eventsOf } from "../record/ledger.ts";

/** Rows of an audit without a limit in the request. */
const ROWS = 100;
/** Most uses of an answer: guests choose the hosts of their refused ones. */
const USES_MAX = 1000;

/** A session and the VM that it is of. */
export interface AuditedSession {
  id: string;
  name: string;
}

/**
 * Lists the uses of credentials, the latest first, from the ledgers of all sessions or of some: one by one,
 * and counted by session, credential, host, place and outcome.
 *
 * @param sessions of the index; the VM of another ledger has no name
 */
export async function auditCredentials(
  home: Home,
  query: z.infer<typeof CredentialAuditQuery>,
  sessions: readonly AuditedSession[] = [],
): Promise<CredentialAudit> {
  const { ref, outcome, session, vm, since, limit = ROWS } = query;
  const names = new Map(sessions.map(({ id, name }) => [id, name]));
  const counted = new Uses();
  let rows: AuditRow[] = [];
  let count = 0;
  const unreadable: string[] = [];
  for (const id of await listLedgers(home, session)) {
    const name = names.get(id);
    if (vm !== undefined && vm !== id && vm !== name) continue;
    const ledger = join(home.dir, "ledgers", id, "session.db");
    try {
      for await (const { common, credential } of eventsOf(ledger, { family: "credential", since })) {
        if (!credential) continue;
        const { event_id, timestamp_unix_ms } = common;
        const row = { session_id: id, event_id, timestamp_unix_ms, ...credential.substitution };
        if (ref !== undefined && row.credential_ref !== ref || outcome && row.outcome !== outcome) continue;
        count++;
        rows.push(row);
        counted.add(row, name);
        // A guest makes as many as it likes.
        if (rows.length >= 4 * limit) rows = latest(rows, limit);
      }
    } catch {
      unreadable.push(id);
    }
  }
  const stored = new Map(entriesOf(home).map((entry) => [entry.ref, entry]));
  return {
    rows: latest(rows, limit),
    truncated: count > limit,
    uses: counted.list(stored),
    uses_truncated: counted.isCut,
    unreadable,
  };
}

function latest<T extends { timestamp_unix_ms: number }>(rows: readonly T[], most: number): T[] {
  return rows.toSorted((a, b) => b.timestamp_unix_ms - a.timestamp_unix_ms).slice(0, most);
}

/** Uses that are alike, counted. */
class Uses {
  readonly #uses = new Map<string, CredentialUse>();
  isCut = false;

  add(row: AuditRow, vm: string | undefined): void {
    const { session_id, event_id: _, timestamp_unix_ms: at, ...facts } = row;
    const key = JSON.stringify([session_id, ...Object.entries(facts).toSorted()]);
    const known = this.#uses.get(key);
    if (known) {
      known.count++;
      known.first_unix_ms = Math.min(known.first_unix_ms, at);
      known.last_unix_ms = Math.max(known.last_unix_ms, at);
    } else if (this.#uses.size < USES_MAX) {
      const use = { session_id, ...(vm !== undefined && { vm }), ...facts };
      this.#uses.set(key, { ...use, count: 1, first_unix_ms: at, last_unix_ms: at });
    } else this.isCut = true;
  }

  /** By session, the one used last first, with the names that the store has for their credentials. */
  list(stored: ReadonlyMap<string, StoredEntry>): CredentialUse[] {
    const ends = new Map<string, number>();
    for (const { session_id, last_unix_ms } of this.#uses.values()) {
      ends.set(session_id, Math.max(ends.get(session_id) ?? 0, last_unix_ms));
    }
    const order = (a: CredentialUse, b: CredentialUse) =>
      ends.get(b.session_id)! - ends.get(a.session_id)! || a.session_id.localeCompare(b.session_id) ||
      b.last_unix_ms - a.last_unix_ms;
    return [...this.#uses.values()].toSorted(order).map((use) => {
      const { label, subscription } = stored.get(use.credential_ref) ?? {};
      return {
        ...use,
        ...(label !== undefined && { label }),
        ...(subscription && { login: subscription.login }),
      };
    });
  }
}

/** A store that cannot be read has no names for the credentials; their uses are in the records. */
function entriesOf(home: Home): StoredEntry[] {
  try {
    return new CredentialStore(storePath(home)).list();
  } catch {
    return [];
  }
}

/** Ids of sessions with a ledger, including sessions of deleted VMs. */
async function listLedgers(home: Home, session?: string): Promise<string[]> {
  const entries = Deno.readDir(join(home.dir, "ledgers"));
  const names = await Array.fromAsync(entries, ({ name }) => name).catch((): string[] => []);
  return names.filter((name) => session === undefined || name === session).sort();
}
