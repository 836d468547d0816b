/** `sbx doctor` without a name: whether this machine can run VMs, and how to fix it. */
import type { Home } from "../../../base/home/mod.ts";
import { type HostCheck, type HostProbe, type HostReport, type Outcome, runProbe } from "./check.ts";
import { MAC_PROBES } from "./mac.ts";
import { MACHINE_PROBES } from "./machine.ts";
import { PROGRAM_PROBES } from "./programs.ts";
import { STATE_PROBES } from "./state.ts";
import { type HostSystem, THIS_SYSTEM } from "./system.ts";

export { type HostCheck, type HostProbe, type HostReport, PROBE_MS } from "./check.ts";
export { hostFacts, type HostStart } from "./host_facts.ts";
export { type HostSystem, THIS_SYSTEM } from "./system.ts";

/** A Mac has a library where other hosts have QEMU. */
function probesOf({ os }: HostSystem): readonly HostProbe[] {
  return [...os === "darwin" ? MAC_PROBES : PROGRAM_PROBES, ...MACHINE_PROBES, ...STATE_PROBES];
}

/**
 * Checks this machine, all probes at once, each within its deadline.
 *
 * @param options.fix mends harmless problems, and checks again
 * @param system the machine; tests replace it
 */
export async function hostReport(
  home: Home,
  { fix = false } = {},
  system = THIS_SYSTEM,
): Promise<HostReport> {
  const look = () => Promise.all(probesOf(system).map((probe) => runProbe(probe, home, system)));
  const first = await look();
  const fixed: string[] = [];
  if (fix) {
    for (const { state, fix: mend } of first) {
      if (state === "failed" && mend) fixed.push(...await mend().then((did) => [did], () => []));
    }
  }
  const results = fixed.length > 0 ? await look() : first;
  const checks = results.map(({ fix: _, ...check }: HostCheck & Pick<Outcome, "fix">) => check);
  return { schema: "sbx.host-doctor.v1", ok: checks.every(({ state }) => state !== "failed"), checks, fixed };
}
