import { machineArguments } from "./command.ts";
import type { ImageIdentity, MachineSpec } from "./hypervisor.ts";
import { findTools } from "./tools.ts";

/** Fields of /proc/cpuinfo that say which instructions there are. */
const CPU_FIELDS = /^(vendor_id|cpu family|model|model name|stepping|flags|CPU \w+|Features)\s*:.*$/gm;

/**
 * Identity of the machines that a host starts now: QEMU's program and KVM's kernel, the processor, and the command line.
 *
 * @throws {SbxError} `host.tools_missing`
 */
export async function imageIdentity(
  board: Pick<MachineSpec, "arch" | "cpus" | "ramMb" | "accelerator">,
  qemu = findTools(board.arch).qemu,
): Promise<ImageIdentity> {
  const [{ size, mtime }, cpuinfo] = await Promise.all([Deno.stat(qemu), Deno.readTextFile("/proc/cpuinfo")]);
  const paths = { dir: "", kernel: "", initrd: "", rootfs: "", logs: "" };
  const spec = { ...board, ...paths, onConsole: () => {}, onDiskFull: () => {} };
  return {
    // Clocks and features that KVM gives its guests are the host kernel's.
    hypervisor: `${qemu} of ${mtime?.toISOString()}, ${size} bytes` +
      (board.accelerator === "kvm" ? `, KVM of Linux ${Deno.osRelease()}` : ""),
    processor: (cpuinfo.split("\n\n")[0].match(CPU_FIELDS) ?? []).join("\n"),
    machine: machineArguments(spec, "", { from: "kernel", plugged: [] }).join(" "),
  };
}
