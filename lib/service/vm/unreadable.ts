import { currentArch } from "../../base/arch/mod.ts";
import type { Home } from "../../base/home/mod.ts";
import type { SessionEntry } from "../../ledger/read/mod.ts";
import { sessionPaths } from "../../session/mod.ts";
import type { Vm } from "./vm.ts";
import { VmProcess } from "./vm_process.ts";

/**
 * Makes a stand-in for a VM whose record cannot be read. It has the id, and the name and profile where the index of
 * sessions has an entry; it can only be deleted.
 *
 * @param state from its process; absent: Defunct
 */
export function makeStandIn(
  home: Home,
  id: string,
  state: Vm["state"] | undefined,
  entry: SessionEntry | undefined,
): Vm {
  const paths = sessionPaths(home, id);
  return {
    damaged: true,
    paths,
    process: new VmProcess(paths.socket),
    record: {
      id,
      name: entry?.name ?? `damaged-${id.slice(0, 8)}`,
      profile_id: entry?.profile_id ?? "unknown",
      profile_revision: entry?.profile_revision ?? "",
      created_at: entry?.created_at ?? new Date(0).toISOString(),
      // It may have been persistent: only a command with its name removes it.
      persistent: true,
      cpus: 0,
      ram_mb: 0,
      scratch_gb: 0,
      env: {},
      files: [],
      assets: { version: "", arch: currentArch(), kernel: "", initrd: "", rootfs: "" },
    },
    state: state ?? {
      state: "Defunct",
      boot_stages: [],
      pid: 0,
      last_error:
        `${paths.record} is damaged or gone, so it cannot be started; its files are in ${paths.workspace}`,
    },
  };
}
