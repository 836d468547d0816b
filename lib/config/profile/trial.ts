/** Profiles of the trials of `sbx learn --minimise`, whose VMs have the same name. */
import { join } from "node:path";
import type { Home } from "../../base/home/mod.ts";

const TRIAL_ID = /^learn-[0-9a-f]{8}$/;

/** An id for the trials of one search; no profile of a person has it. */
export function newTrialId(): string {
  return `learn-${crypto.randomUUID().slice(0, 8)}`;
}

/** True for the VM of a trial. */
export function isTrial({ name, profile_id }: { name: string; profile_id: string }): boolean {
  return name === profile_id && TRIAL_ID.test(name);
}

/** Folder with a file of each search under way; the lock of that ends with the search's process. */
export function trialsDir({ runDir }: Pick<Home, "runDir">): string {
  return join(runDir, "learn");
}
