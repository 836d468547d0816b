import type { Accelerator, MachineSpec } from "./hypervisor.ts";

/** Sockets between one machine's programs, in its folder. */
export const SOCKETS = { vsock: "vsock.sock", files: "fs.sock", monitor: "qmp.sock" } as const;

/**
 * Machine of every VM. Not `microvm`: under emulation by QEMU 10, half of its boots end in a kernel panic (invalid
 * opcode, while the kernel patches itself). Controllers without a device are left out.
 */
const MACHINE = "q35,memory-backend=mem0,sata=off,smbus=off,i8042=off,vmport=off,graphics=off";

/** QEMU arguments of every boot, also of the KVM probe and the benchmark floor. */
export function bareArguments(
  machine: Pick<MachineSpec, "cpus" | "ramMb" | "kernel" | "initrd" | "accelerator">,
  parameters: string[] = [],
): string[] {
  const { cpus, ramMb, kernel, initrd, accelerator } = machine;
  return [
    ...[
      "-M",
      MACHINE,
      "-accel",
      accelerator,
      "-cpu",
      accelerator === "kvm" ? "host" : "max",
    ],
    ...["-smp", String(cpus), "-m", String(ramMb)],
    ...["-object", `memory-backend-memfd,id=mem0,size=${ramMb}M,share=on`],
    ...["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"],
    ...["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"],
    ...[
      "-kernel",
      kernel,
      "-initrd",
      initrd,
      "-append",
      ["console=ttyS0 quiet reboot=t panic=-1", ...emulationParameters(accelerator), ...parameters].join(" "),
    ],
  ];
}

/** All QEMU arguments of one machine. */
export function machineArguments(spec: MachineSpec): string[] {
  const socket = (name: string) => `${spec.dir}/${name}`;
  return [
    ...bareArguments(spec, spec.scratch ? ["sbx_scratch=/dev/vdb"] : []),
    ...["-qmp", `unix:${socket(SOCKETS.monitor)},server=on,wait=off`],
    // PCI slots are filled in this order: the root disk becomes vda.
    ...disk("root", spec.rootfs, "readonly=on"),
    ...(spec.scratch ? disk("scratch", spec.scratch, "discard=unmap") : []),
    ...[
      "-chardev",
      `socket,id=vsock,path=${socket(SOCKETS.vsock)}`,
      "-device",
      "vhost-user-vsock-pci,chardev=vsock",
    ],
    ...[
      "-chardev",
      `socket,id=files,path=${socket(SOCKETS.files)}`,
      "-device",
      "vhost-user-fs-pci,chardev=files,tag=workspace",
    ],
  ];
}

function disk(id: string, path: string, options: string): string[] {
  // A comma in an option's value is escaped by doubling.
  const file = path.replaceAll(",", ",,");
  return [
    "-drive",
    `id=${id},file=${file},format=raw,if=none,${options}`,
    "-device",
    `virtio-blk-pci,drive=${id},serial=${id}`,
  ];
}

/** Kernel parameters of an emulated guest; a guest on KVM needs none. */
function emulationParameters(accelerator: Accelerator): string[] {
  // Emulation caches translated code by address: with random addresses every program is translated again at
  // each start. With fixed ones a program starts five times faster; the machine isolates the guest, not its
  // ASLR. For the same reason the agent runs without a just-in-time compiler, whose output would be
  // translated once more.
  return accelerator === "tcg" ? ["norandmaps", "sbx_v8_flags=--jitless", ...clockParameters()] : [];
}

/**
 * Kernel parameters for the clock. Under emulation the guest calibrates its clock against an emulated timer,
 * which is slow and inexact on a busy host. The guest's counter is the host's, so a constant and known host
 * frequency is passed instead.
 */
function clockParameters(): string[] {
  try {
    const cpu = Deno.readTextFileSync("/proc/cpuinfo").split("\n\n")[0];
    const mhz = cpu.match(/^cpu MHz\s*:\s*([\d.]+)/m)?.[1];
    const isConstant = /\b(tsc_known_freq|hypervisor)\b/.test(cpu) && /\bconstant_tsc\b/.test(cpu);
    return mhz && isConstant ? [`tsc_early_khz=${Math.round(Number(mhz) * 1000)}`, "tsc=reliable"] : [];
  } catch {
    return [];
  }
}
