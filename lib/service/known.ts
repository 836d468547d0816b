/** What of the sessions of a home can be told without their index (`main.db`). */
import { join } from "node:path";
import type { Home } from "../base/home/mod.ts";
import type { SessionEntry } from "../ledger/sessions.ts";
import { readRecord, readState, sessionPaths } from "../session/mod.ts";
import { isAlive } from "./vm.ts";

/** Every session that has a ledger or a VM, in no order. */
export async function* knownSessions(home: Home): AsyncGenerator<SessionEntry> {
  const ids = new Set<string>();
  for (const dir of [join(home.dir, "ledgers"), home.sessionsDir]) {
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch((): string[] => []);
    for (const name of names) if (SESSION_ID.test(name)) ids.add(name);
  }
  for (const id of ids) yield await entryOf(home, id);
}

/** Names of folders that belong to sessions. */
export const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** A VM that is gone has left its ledger, which knows everything of it but its name. */
async function entryOf(home: Home, id: string): Promise<SessionEntry> {
  const paths = sessionPaths(home, id);
  const record = await readRecord(paths).catch(() => undefined);
  const state = await readState(paths).catch(() => undefined);
  const { mtime } = await Deno.stat(paths.ledger).catch(() => Deno.stat(paths.dir)).catch(() => ({
    mtime: null,
  }));
  const touched = (mtime ?? new Date()).toISOString();
  const ended = record && state && isAlive(state) ? {} : { ended_at: touched };
  if (record) {
    const { name, profile_id, profile_revision, created_at } = record;
    return { id, name, profile_id, profile_revision, created_at, ...ended };
  }
  const first = await firstEvent(paths.ledger);
  return {
    id,
    name: `unknown-${id.slice(0, 8)}`,
    profile_id: first?.profile_id ?? "unknown",
    profile_revision: first?.profile_revision ?? "",
    created_at: first ? new Date(first.timestamp_unix_ms).toISOString() : touched,
    ...ended,
  };
}

async function firstEvent(ledger: string) {
  const { readEvents } = await import("../ledger/mod.ts");
  const page = await readEvents(ledger, { limit: 1 }).catch(() => undefined);
  return page?.events[0]?.common;
}
