import type { Accelerator, MachineSpec } from "./hypervisor.ts";

/** Where one machine's programs meet, below its folder. */
export const SOCKETS = { vsock: "vsock.sock", files: "fs.sock", monitor: "qmp.sock" } as const;

/** The part of QEMU's command line that every boot shares, the probe's and the benchmark's floor included. */
export function bareArguments(
  machine: Pick<MachineSpec, "cpus" | "ramMb" | "kernel" | "initrd" | "accelerator">,
  parameters: string[] = [],
): string[] {
  const { cpus, ramMb, kernel, initrd, accelerator } = machine;
  return [
    ...[
      "-M",
      "microvm,memory-backend=mem0",
      "-accel",
      accelerator,
      "-cpu",
      accelerator === "kvm" ? "host" : "max",
    ],
    // Without this virtiofs dies: vhost-user devices speak virtio 1.0 only.
    ...["-global", "virtio-mmio.force-legacy=false"],
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

/** The whole command line of one machine. */
export function machineArguments(spec: MachineSpec): string[] {
  const socket = (name: string) => `${spec.dir}/${name}`;
  return [
    ...bareArguments(spec, spec.scratch ? ["sbx_scratch=/dev/vdb"] : []),
    ...["-qmp", `unix:${socket(SOCKETS.monitor)},server=on,wait=off`],
    // virtio-mmio slots are filled from the last to the first: the disks are named here in the order that makes the root vda.
    ...disk("root", spec.rootfs, "readonly=on"),
    ...(spec.scratch ? disk("scratch", spec.scratch, "discard=unmap") : []),
    ...[
      "-chardev",
      `socket,id=vsock,path=${socket(SOCKETS.vsock)}`,
      "-device",
      "vhost-user-vsock-device,chardev=vsock",
    ],
    ...[
      "-chardev",
      `socket,id=files,path=${socket(SOCKETS.files)}`,
      "-device",
      "vhost-user-fs-device,chardev=files,tag=workspace",
    ],
  ];
}

function disk(id: string, path: string, options: string): string[] {
  // A comma in an option's value is written twice.
  const file = path.replaceAll(",", ",,");
  return [
    "-drive",
    `id=${id},file=${file},format=raw,if=none,${options}`,
    "-device",
    `virtio-blk-device,drive=${id},serial=${id}`,
  ];
}

/** What an emulated guest is told; one that runs on KVM finds everything out by itself. */
function emulationParameters(accelerator: Accelerator): string[] {
  // Emulation translates code by its address: at random addresses every program would be translated anew each time it
  // starts. With fixed ones a program starts five times faster; what keeps the guest in is the machine, not its ASLR.
  // For the same reason the agent does without a just-in-time compiler: what it would make is translated once more.
  return accelerator === "tcg" ? ["norandmaps", "sbx_v8_flags=--jitless", ...clockParameters()] : [];
}

/**
 * Under emulation the guest measures its clock against an emulated timer, and on a busy host it gives up: then it waits
 * for timer ticks that a microvm never sends, and one boot in four hangs. The guest's counter is the host's, so the host's
 * frequency, where it is constant and known, is simply told.
 */
function clockParameters(): string[] {
  try {
    const cpu = Deno.readTextFileSync("/proc/cpuinfo").split("\n\n")[0];
    const mhz = cpu.match(/^cpu MHz\s*:\s*([\d.]+)/m)?.[1];
    const constant = /\b(tsc_known_freq|hypervisor)\b/.test(cpu) && /\bconstant_tsc\b/.test(cpu);
    return mhz && constant ? [`tsc_early_khz=${Math.round(Number(mhz) * 1000)}`, "tsc=reliable"] : [];
  } catch {
    return [];
  }
}
