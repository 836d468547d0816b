import { backgroundInterval, backgroundTimeout } from "../../base/time/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Bin } from "../vm/bin.ts";
import type { FleetShipping } from "./fleet_shipping.ts";
import type { Registry } from "../vm/registry.ts";
import type { Sessions } from "./sessions.ts";

const RETENTION_SETTING = "vm.resources.retention_days";
/** `ms` to the first removal of old sessions, past the busy start of the service, and between removals. */
const PRUNE_DELAY_MS = 10_000;
const PRUNE_INTERVAL_MS = 24 * 3600 * 1000;
/** `ms` between attempts to send ledgers of ended sessions to a collecting server that was away. */
const COLLECT_INTERVAL_MS = 60_000;

/** The parts of the service that are maintained. */
export interface MaintenanceParts {
  registry: Registry;
  bin: Pick<Bin, "list">;
  sessions: Sessions;
  settings: SettingsStore;
  fleet: Pick<FleetShipping, "release">;
}

/** Starts the timers that remove old sessions and collect the ledgers of ended ones; they keep no process alive. */
export function startMaintenance({ registry, bin, sessions, settings, fleet }: MaintenanceParts): void {
  const idsOf = (vms: ReturnType<Registry["all"]>) => new Set(vms.map(({ record }) => record.id));
  const prune = async () => {
    const days = settings.inForce(RETENTION_SETTING);
    if (typeof days === "number") {
      const deleted = await bin.list().catch(() => []);
      const existing = new Set([...idsOf(registry.all()), ...deleted.map(({ id }) => id)]);
      sessions.prune(days, existing, { release: (id) => fleet.release(id) });
    }
  };
  backgroundTimeout(prune, PRUNE_DELAY_MS);
  backgroundInterval(prune, PRUNE_INTERVAL_MS);
  backgroundInterval(() => sessions.collect(idsOf(registry.alive())), COLLECT_INTERVAL_MS);
}
