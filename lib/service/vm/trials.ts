/** Removes the VM and the profile of a search of `sbx learn --minimise` whose process was killed. */
import { dirname, join } from "node:path";
import { asSbxError, ifFound } from "../../base/error/mod.ts";
import { type Home, lockWithin } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundInterval } from "../../base/time/mod.ts";
import { isTrial, profilePath, trialsDir } from "../../config/profile/mod.ts";
import type { Registry } from "./registry.ts";
import type { Supervisor } from "./supervisor.ts";

/** Interval of the search for them, in `ms`. */
const SWEEP_MS = 15_000;
/** Longest wait for the lock of a search that may be under way, in `ms`. */
const LOCK_MS = 100;

export interface TrialParts {
  home: Home;
  registry: Pick<Registry, "all">;
  supervisor: Pick<Supervisor, "delete">;
}

/** Removes such trials now, and again and again. */
export function beginTrialSweep(parts: TrialParts): void {
  let sweep = Promise.resolve();
  const again = () => {
    sweep = sweep.then(() => sweepTrials(parts)).catch((error) =>
      log.warn(asSbxError(error, "removing the trials of sbx learn"))
    );
  };
  again();
  backgroundInterval(again, SWEEP_MS);
}

/** Removes VMs and profiles of searches whose process has ended. */
export async function sweepTrials({ home, registry, supervisor }: TrialParts): Promise<void> {
  const names = await ifFound(Array.fromAsync(Deno.readDir(trialsDir(home)), ({ name }) => name)) ?? [];
  for (const id of names) {
    if (!isTrial({ name: id, profile_id: id })) continue;
    const path = join(trialsDir(home), id);
    using file = await ifFound(Deno.open(path, { write: true }));
    if (!file || !await lockWithin(file, LOCK_MS)) continue;
    for (const vm of registry.all().filter(({ record }) => record.name === id && isTrial(record))) {
      await supervisor.delete(vm, { force: true, keeps: false });
    }
    await ifFound(Deno.remove(dirname(profilePath(home, id)), { recursive: true }));
    await ifFound(Deno.remove(path));
  }
}
