import type { Arch } from "../../base/arch/mod.ts";
import type { Accelerator } from "./hypervisor.ts";

/** Frequency of the kernel's timer interrupt in Debian, in `Hz`. */
const KERNEL_HZ = 250;

/**
 * Kernel parameters for the clock of an emulated x86_64 guest. Under emulation the guest calibrates its clock against an emulated timer,
 * which is slow and inexact on a busy host. The guest's counter is the host's, so a constant and known host
 * frequency is passed instead; `lpj` is the same for a processor that starts later.
 */
function bootClock(): string[] {
  try {
    const cpu = Deno.readTextFileSync("/proc/cpuinfo").split("\n\n")[0];
    const mhz = cpu.match(/^cpu MHz\s*:\s*([\d.]+)/m)?.[1];
    const isConstant = /\b(tsc_known_freq|hypervisor)\b/.test(cpu) && /\bconstant_tsc\b/.test(cpu);
    if (!mhz || !isConstant) return [];
    const khz = Math.round(Number(mhz) * 1000);
    return [`tsc_early_khz=${khz}`, "tsc=reliable", `lpj=${Math.round(khz * 1000 / KERNEL_HZ)}`];
  } catch {
    return [];
  }
}

/** QEMU's machine for guests of one architecture. */
export interface Board {
  /** QEMU's program */
  program: string;
  /** value of `-M` */
  machine: string;
  /** model of an emulated processor */
  emulatedCpu: string;
  /** options of every model that keep the processor's virtualization from the guest */
  withoutVirtualization: string;
  /** device of the guest's console */
  console: string;
  /** kernel parameters of every guest, of one on the processor itself, and of an emulated one */
  parameters: string[];
  native: string[];
  emulated(): string[];
}

export const BOARDS: Record<Arch, Board> = {
  x86_64: {
    program: "qemu-system-x86_64",
    // Not `microvm`: under emulation by QEMU 10, half of its boots end in a kernel panic (invalid opcode, while the kernel
    // patches itself). Controllers without a device are left out.
    machine: "q35,memory-backend=mem0,sata=off,smbus=off,i8042=off,vmport=off,graphics=off",
    emulatedCpu: "max",
    // Of both vendors: QEMU knows both names on either, and emulates AMD's.
    withoutVirtualization: ",svm=off,vmx=off",
    console: "ttyS0",
    // Calls of 32-bit programs have numbers and arguments that nothing here can read (cmd/guest/activity/thread.ts; Linux 6.7).
    parameters: ["reboot=t", "ia32_emulation=0"],
    // The counter goes on while a machine that was started from memory gets its devices, and the emulated timers that the
    // kernel checks it with do not: without this it takes the counter for unstable, in each VM from a template.
    native: ["tsc=nowatchdog"],
    emulated: () => [
      // QEMU can keep the translation of code that another processor is changing, and then the guest's kernel panics
      // ("Oops: int3" in sched_clock_cpu: 3 of 100 boots on a busy host). It patches itself while it boots, so it boots
      // with one processor, and init starts the others; `noreplace-smp` spares it a second patching for them.
      ...["maxcpus=1", "noreplace-smp"],
      ...bootClock(),
    ],
  },
  arm64: {
    program: "qemu-system-aarch64",
    // The newest interrupt controller that QEMU or the host has: version 2 ends at eight processors.
    machine: "virt,memory-backend=mem0,gic-version=max,highmem=on,virtualization=off",
    // `max` signs every return address, and computes each signature in software: four times the time of a boot.
    emulatedCpu: "cortex-a72",
    // The machine decides.
    withoutVirtualization: "",
    console: "ttyAMA0",
    parameters: [],
    native: [],
    emulated: () => [],
  },
};

/** Model of the processor of a board; its guests cannot run machines of their own. */
export function cpuModel(board: Board, accelerator: Accelerator): string {
  return (accelerator === "kvm" ? "host" : board.emulatedCpu) + board.withoutVirtualization;
}
