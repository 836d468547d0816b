import { shareOf } from "../machine/live/mod.ts";
import type { Accelerator, MachineSpec } from "../machine/vm/mod.ts";
import { ConsoleLog } from "./console.ts";
import type { SessionPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";

/** Facts of a VM's record that its machine depends on. */
export type MachineFacts = Pick<VmRecord, "cpus" | "ram_mb" | "scratch_gb" | "live" | "abilities"> & {
  assets: Pick<VmRecord["assets"], "arch" | "kernel" | "initrd" | "rootfs">;
};

/** The machine of a VM. */
export function specOf(
  { cpus, ram_mb, assets, scratch_gb, live, abilities }: MachineFacts,
  paths: SessionPaths,
  accelerator: Accelerator,
  onDiskFull: () => void,
): MachineSpec {
  const { sockets, scratch, workspace, logs } = paths;
  const console = new ConsoleLog(`${logs}/console.log`);
  return {
    dir: sockets,
    arch: assets.arch,
    cpus,
    ramMb: ram_mb,
    kernel: assets.kernel,
    initrd: assets.initrd,
    rootfs: assets.rootfs,
    scratch: scratch_gb > 0 ? scratch : undefined,
    workspace,
    ...live && { live: shareOf(live, paths) },
    ...abilities && { abilities },
    accelerator,
    logs,
    onConsole: (bytes) => console.write(bytes),
    onDiskFull,
  };
}
