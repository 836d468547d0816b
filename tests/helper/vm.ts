import { currentArch } from "../../lib/base/arch/mod.ts";
import type { VmRecord } from "../../lib/session/mod.ts";

/** A record as `vm.json` holds it. */
export function recordOf(id: string, name: string): VmRecord {
  return {
    id,
    name,
    profile_id: "code",
    profile_revision: "1.0.0",
    created_at: new Date().toISOString(),
    persistent: true,
    cpus: 1,
    ram_mb: 512,
    scratch_gb: 1,
    env: {},
    files: [],
    assets: { version: "1", arch: currentArch(), kernel: "/k", initrd: "/i", rootfs: "/r" },
  };
}
