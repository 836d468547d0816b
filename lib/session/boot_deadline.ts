import { SbxError } from "../base/error/mod.ts";
import { rejectAfter } from "../base/time/mod.ts";

/** Longest boot in `s`; `SBX_BOOT_DEADLINE_SECS` replaces it, for slow machines and for tests. */
const BOOT_DEADLINE_SECS = 90;

/** Rejects when a boot has taken too long. */
export function bootDeadline(): Promise<never> {
  const seconds = Number(Deno.env.get("SBX_BOOT_DEADLINE_SECS")) || BOOT_DEADLINE_SECS;
  return rejectAfter(
    seconds * 1000,
    () =>
      new SbxError("vm.boot_timeout", `the guest was not ready after ${seconds} seconds`, {
        hint: "sbx logs shows its console; SBX_BOOT_DEADLINE_SECS gives it longer",
      }),
  );
}
