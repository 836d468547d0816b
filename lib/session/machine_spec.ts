import type { Accelerator, MachineSpec } from "../vm/mod.ts";
import { ConsoleLog } from "./console.ts";
import type { SessionPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";

/** The machine of a VM. */
export function specOf(
  { cpus, ram_mb, assets, scratch_gb }: VmRecord,
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
