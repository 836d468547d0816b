/** Probes of VMs with a machine: a process that stands still, an image that is old or withdrawn, a gap in the record. */
import type { Home } from "../../base/home/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";
import { bootAssets, loadProfile } from "../../config/profile/mod.ts";
import { type Probe, withDeadline } from "./probe.ts";
import type { Registry } from "../vm/registry.ts";
import type { ReleaseStanding } from "../contract/publisher_status.ts";
import { isAlive, type Vm } from "../vm/vm.ts";

/** Longest wait for a VM's process, in `ms`. */
const ANSWER_MS = timeLimit(1000);
/**
 * Age up to which a gap is an issue, in `ms`: nothing mends one (docs/design/contracts/02-http.md §2,
 * "Status").
 */
export const GAP_RECENT_MS = 3600_000;

/** Parts of the service that these probes check. */
export interface VmHealthSources {
  home: Home;
  registry: Pick<Registry, "all">;
  standing: Pick<ReleaseStanding, "notesOf">;
}

/** The probes of the VMs of one home. */
export function vmProbes({ home, registry, standing }: VmHealthSources): Probe[] {
  return registry.all().filter(({ damaged, state }) => !damaged && state.state !== "Booting")
    .flatMap((vm): Probe[] => {
      const { record, state } = vm;
      const what = (part: string) => `${part} of VM "${record.name}"`;
      const hasMachine = isAlive(state) || state.state === "Suspended";
      return [
        ...isAlive(state) ? [[what("the process"), () => checkProcess(vm)] satisfies Probe] : [],
        ...hasMachine
          ? [
            [what("the image"), () => checkImage(home, vm)],
            [what("the release"), async () => (await standing.notesOf(vm)).map((note) => issueOf(vm, note))],
            [what("the record"), () => checkGaps(vm)],
          ] satisfies Probe[]
          : [],
      ];
    });
}

async function checkProcess({ record, state, process }: Vm): Promise<string[]> {
  return await withDeadline(process.call({ t: "Info" }), ANSWER_MS).then(
    () => [],
    () => [
      `VM "${record.name}": its process (pid ${state.pid}) does not answer, so nothing reaches the VM ` +
      `(sbx stop ${record.name}, or end that process)`,
    ],
  );
}

/** A machine keeps the image that it has booted, also when a newer one was installed since. */
async function checkImage(home: Home, { record, state }: Vm): Promise<string[]> {
  const { name, profile_id, assets: own } = record;
  // A profile without an image is an issue of its own.
  const now = await loadProfile(home, profile_id).then((profile) => bootAssets(home, profile, own.arch))
    .catch(() => undefined);
  const isSame = now === undefined ||
    PARTS.every((part) =>
      now[part].path === own[part] || Object.values(own.hashes ?? {}).includes(now[part].hash)
    );
  if (isSame) return [];
  const does = state.state === "Suspended" ? "was suspended with" : "runs";
  return [
    `VM "${name}" ${does} image ${own.version}; its profile boots ${now.version} now ` +
    `(sbx stop ${name}, then sbx start ${name})`,
  ];
}

const PARTS = ["kernel", "initrd", "rootfs"] as const;

/** Programs are not recorded during a gap. The reason is a guest's text, and stays in the finding. */
async function checkGaps({ record, paths }: Vm, now = Date.now()): Promise<string[]> {
  const { readLastGap } = await import("../../ledger/read/mod.ts");
  const at = await Deno.lstat(paths.ledger).then(() => readLastGap(paths.ledger), () => undefined);
  return at === undefined || now - at > GAP_RECENT_MS ? [] : [
    `VM "${record.name}": what its programs did is missing in its record at ${
      new Date(at).toISOString().slice(0, 19)
    }Z (sbx findings ${record.name} shows why)`,
  ];
}

function issueOf({ record }: Vm, note: string): string {
  return `VM "${record.name}": ${note}`;
}
