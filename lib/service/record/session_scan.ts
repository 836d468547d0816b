/** Sessions of a home found without their index (`main.db`): by their ledgers and their VMs. */
import { join } from "node:path";
import type { Home } from "../../base/home/mod.ts";
import type { SessionEntry } from "../../ledger/read/mod.ts";
import { readRecord, readState, sessionPaths } from "../../session/mod.ts";
import { isAlive } from "../vm/vm.ts";

/** Name of a folder that belongs to a session. */
export const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

/** Yields every session that has a ledger or a VM, in no order. */
export async function* scanSessions(home: Home): AsyncGenerator<SessionEntry> {
  const ids = new Set<string>();
  for (const dir of [join(home.dir, "ledgers"), home.sessionsDir]) {
    const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name).catch((): string[] => []);
    for (const name of names) if (SESSION_ID.test(name)) ids.add(name);
  }
  for (const id of ids) yield await entryOf(home, id);
}

/** The ledger of a deleted VM has everything but the VM's name. */
async function entryOf(home: Home, id: string): Promise<SessionEntry> {
  const paths = sessionPaths(home, id);
  const record = await readRecord(paths).catch(() => undefined);
  const state = await readState(paths).catch(() => undefined);
  const { mtime } = await Deno.stat(paths.ledger).catch(() => Deno.stat(paths.dir)).catch(() => ({
    mtime: null,
  }));
  const modified = (mtime ?? new Date()).toISOString();
  const ended = record && state && isAlive(state) ? {} : { ended_at: modified };
  if (record) {
    const { name, profile_id, profile_revision, created_at, made_by } = record;
    return { id, name, profile_id, profile_revision, created_at, ...made_by, ...ended };
  }
  const first = await readFirstEvent(paths.ledger);
  return {
    id,
    name: `unknown-${id.slice(0, 8)}`,
    profile_id: first?.profile_id ?? "unknown",
    profile_revision: first?.profile_revision ?? "",
    created_at: first ? new Date(first.timestamp_unix_ms).toISOString() : modified,
    ...ended,
  };
}

async function readFirstEvent(ledger: string) {
  const { readEvents } = await import("../../ledger/read/mod.ts");
  const page = await readEvents(ledger, { limit: 1 }).catch(() => undefined);
  return page?.events[0]?.common;
}
