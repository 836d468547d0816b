import type { Accelerator, MachineSpec } from "../vm/mod.ts";
import { ConsoleLog } from "./console.ts";
import type { SessionPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";

/** Facts of a VM's record that its machine depends on. */
export type MachineFacts = Pick<VmRecord, "cpus" | "ram_mb" | "scratch_gb"> & {
  assets: Pick<VmRecord["assets"], "kernel" | "initrd" | "rootfs">;
};

/** The machine of a VM. */
export function specOf(
  { cpus, ram_mb, assets, scratch_gb }: MachineFacts,
  { sockets, scratch, workspace, logs }: SessionPaths,
  accelerator: Accelerator,
  onDiskFull: () => void,
): MachineSpec {
  const console = new ConsoleLog(`${logs}/console.log`);
  return {
    dir: sockets,
    cpus,
    ramMb: ram_mb,
    kernel: assets.kernel,
    initrd: assets.initrd,
    rootfs: assets.rootfs,
    scratch: scratch_gb > 0 ? scratch : undefined,
    workspace,
    accelerator,
    logs,
    onConsole: (bytes) => console.write(bytes),
    onDiskFull,
  };
}
