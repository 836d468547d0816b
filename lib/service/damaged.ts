import { join } from "node:path";
import type { Home } from "../base/home/mod.ts";
import type { SessionEntry } from "../ledger/sessions.ts";
import { sessionPaths } from "../session/mod.ts";
import type { Vm } from "./vm.ts";

/**
 * A VM whose record cannot be read. Nothing is known of it but that it is there, and perhaps what the index of sessions
 * says: it can be deleted, and nothing else.
 *
 * @param state as its process tells it; Defunct when there is none
 */
export function damagedVm(
  home: Home,
  id: string,
  state: Vm["state"] | undefined,
  known: SessionEntry | undefined,
): Vm {
  const paths = sessionPaths(home, id);
  return {
    damaged: true,
    paths,
    record: {
      id,
      name: known?.name ?? `damaged-${id.slice(0, 8)}`,
      profile_id: known?.profile_id ?? "unknown",
      profile_revision: known?.profile_revision ?? "",
      created_at: known?.created_at ?? new Date(0).toISOString(),
      // Whether it was to be kept is not known either: only who names it removes it.
      persistent: true,
      cpus: 0,
      ram_mb: 0,
      scratch_gb: 0,
      env: {},
      files: [],
      assets: { version: "", kernel: "", initrd: "", rootfs: "" },
    },
    state: state ?? {
      state: "Defunct",
      boot_stages: [],
      pid: 0,
      last_error: `${paths.record} is damaged or gone, so it cannot be started; its files are in ${
        join(paths.dir, "workspace")
      }`,
    },
  };
}
