/** What shipping does now, in a file that `sbx fleet status` reads. */
import { ifFound } from "../../base/error/mod.ts";
import { join } from "node:path";
import { writeAtomic } from "../../base/home/mod.ts";

export interface FleetStatus {
  schema: "sbx.fleet-status.v1";
  /** collector, without credentials */
  target: string;
  machine_id: string;
  /** ISO 8601: end of the last round, and of the last one without an error */
  at: string;
  last_good_at: string | null;
  error: string | null;
  sessions: {
    /** ledgers on this machine */
    all: number;
    /** with rows that the collector lacks */
    behind: number;
    forked: string[];
    /** the collector refuses their rows */
    refused: string[];
    /** removed before all of their rows were sent, since this home began */
    lost: number;
  };
  shipped: { events: number; segments: number; bytes: number };
}

/** Files of shipping below a home. */
export function fleetPaths({ dir }: { dir: string }) {
  const folder = join(dir, "fleet");
  return {
    folder,
    cursors: join(folder, "cursors"),
    losses: join(folder, "losses"),
    status: join(folder, "status.json"),
  };
}

export async function writeStatus(home: { dir: string }, status: FleetStatus): Promise<void> {
  await writeAtomic(fleetPaths(home).status, JSON.stringify(status, null, 2) + "\n");
}

/** Reads the status; `undefined`: this home has shipped nothing yet. */
export async function readStatus(home: { dir: string }): Promise<FleetStatus | undefined> {
  const text = await ifFound(Deno.readTextFile(fleetPaths(home).status));
  return text === undefined ? undefined : JSON.parse(text);
}
