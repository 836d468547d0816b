import { SbxError } from "../base/error/mod.ts";
import { backgroundDelay, rejectAfter, timeLimit } from "../base/time/mod.ts";

/** Longest boot in `s`; `SBX_BOOT_DEADLINE_SECS` replaces it, for slow machines and for tests. */
const BOOT_DEADLINE_SECS = 90;

/** Part of it after which a guest that was started from memory is given up: the rest is for a boot. */
const TEMPLATE_SHARE = 1 / 3;

/** `ms` between looks whether a machine stands still. */
const LOOK_MS = 1000;

/** Rejects when a boot has taken too long. */
export function bootDeadline(): Promise<never> {
  const seconds = deadlineSeconds();
  return rejectAfter(seconds * 1000, () => tooLate(seconds));
}

/** Rejects when a guest has not rejoined in the time of a boot; time with a paused machine is not counted. */
export async function rejoinDeadline(isStill: () => boolean): Promise<never> {
  const seconds = deadlineSeconds();
  for (let leftMs = seconds * 1000; leftMs > 0;) {
    await backgroundDelay(LOOK_MS);
    if (!isStill()) leftMs -= LOOK_MS;
  }
  throw tooLate(seconds);
}

function tooLate(seconds: number): SbxError {
  return new SbxError("vm.boot_timeout", `the guest was not ready after ${seconds} seconds`, {
    hint: "sbx logs NAME shows its console; SBX_TIME_FACTOR gives a slow machine longer",
  });
}

/** Rejects when a guest that was started from memory has not reported. */
export function templateDeadline(): Promise<never> {
  const seconds = deadlineSeconds() * TEMPLATE_SHARE;
  return rejectAfter(
    seconds * 1000,
    () => new SbxError("vm.boot_timeout", `its guest did not report in ${seconds.toFixed(1)} seconds`),
  );
}

function deadlineSeconds(): number {
  return Number(Deno.env.get("SBX_BOOT_DEADLINE_SECS")) || timeLimit(BOOT_DEADLINE_SECS);
}
