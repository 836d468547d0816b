/** `sbx doctor` without a name: whether this machine can run VMs, and what mends it. */
import type { Home } from "../../base/home/mod.ts";
import { type HostCheck, type HostProbe, type HostReport, type Outcome, runProbe } from "./check.ts";
import { MACHINE_PROBES } from "./machine.ts";
import { PROGRAM_PROBES } from "./programs.ts";
import { STATE_PROBES } from "./state.ts";

export { type HostCheck, type HostProbe, type HostReport, PROBE_MS } from "./check.ts";

const PROBES: readonly HostProbe[] = [...PROGRAM_PROBES, ...MACHINE_PROBES, ...STATE_PROBES];

/**
 * Checks this machine, all probes at once, each within its deadline.
 *
 * @param options.fix mends what is harmless, and looks again
 */
export async function hostReport(home: Home, { fix = false } = {}): Promise<HostReport> {
  const first = await Promise.all(PROBES.map((probe) => runProbe(probe, home)));
  const fixed: string[] = [];
  if (fix) {
    for (const { state, fix: mend } of first) {
      if (state === "failed" && mend) fixed.push(...await mend().then((did) => [did], () => []));
    }
  }
  const results = fixed.length > 0 ? await Promise.all(PROBES.map((probe) => runProbe(probe, home))) : first;
  const checks = results.map(({ fix: _, ...check }: HostCheck & Pick<Outcome, "fix">) => check);
  return { schema: "sbx.host-doctor.v1", ok: checks.every(({ state }) => state !== "failed"), checks, fixed };
}
