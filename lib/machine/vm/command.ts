/** The command line of QEMU for a machine, and its board. */
import type { Arch } from "../../base/arch/mod.ts";
import { TIME_FACTOR } from "../../base/time/mod.ts";
import type { Accelerator, MachineSpec } from "./hypervisor.ts";
import { isEnlarged } from "./scratch.ts";

/** Sockets between one machine's programs, in its folder. */
export const SOCKETS = {
  vsock: "vsock.sock",
  files: "fs.sock",
  monitor: "qmp.sock",
  state: "state.sock",
} as const;

/**
 * Place of each device, the same in every machine, so that a machine can be given the state of another one.
 */
const ADDRESS = { root: "0x3", layer: "0x4", scratch: "0x5", before: "0x6" } as const;
/** Place of a guest's disk without a layer, as memory written down by older versions has it. */
const SCRATCH_ADDRESS = "0x4";

/**
 * Ports for the devices that are plugged into a machine that runs, and out of it: QEMU can write down
 * neither of them on every host. Their hot plug is the board's (ACPI), with which a guest finds a device
 * when it looks, and can eject one.
 */
export const PORT = { vsock: "vsock-port", files: "files-port" } as const;
/** Address of each port on the first bus. */
export const PORT_ADDRESS = { vsock: "0x10", files: "0x11" } as const;

type Size = Pick<MachineSpec, "arch" | "cpus" | "ramMb" | "accelerator">;
type Kernel = Pick<MachineSpec, "arch" | "kernel" | "initrd" | "accelerator">;

/** QEMU arguments of a bare boot: the KVM probe's, and the benchmark's floor. */
export function bareArguments(machine: Size & Kernel, parameters: string[] = []): string[] {
  const memory = `memory-backend-memfd,id=mem0,size=${machine.ramMb}M,share=on`;
  return [...boardArguments(machine, memory), ...kernelArguments(machine, parameters)];
}

/** Start of a machine. */
export interface MachineStart {
  /** from its kernel, or with the state of another one */
  from: "kernel" | "memory";
  /** devices that are there from the start */
  plugged: readonly Pluggable["id"][];
}

/**
 * All QEMU arguments of one machine.
 *
 * @param memory path of the file that is its memory
 */
export function machineArguments(spec: MachineSpec, memory: string, start: MachineStart): string[] {
  const { dir, ramMb, rootfs, scratch, layer, before } = spec;
  const backend = `memory-backend-file,id=mem0,size=${ramMb}M,share=on,mem-path=${memory}`;
  return [
    ...boardArguments(spec, backend),
    // A machine that is restored has its kernel in its memory.
    ...start.from === "memory" ? ["-incoming", "defer"] : kernelArguments(spec, guestParameters(spec)),
    ...["-qmp", `unix:${dir}/${SOCKETS.monitor},server=on,wait=off`],
    ...disk("root", rootfs, "readonly=on"),
    ...layer ? disk("layer", layer, "readonly=on") : [],
    ...scratch ? disk("scratch", scratch, "discard=unmap", layer ? ADDRESS.scratch : SCRATCH_ADDRESS) : [],
    ...before ? disk("before", before, "readonly=on") : [],
    ...port("vsock", 1),
    ...port("files", 2),
    ...PLUGGABLE.filter(({ id }) => start.plugged.includes(id)).flatMap((device) =>
      pluggedArguments(device, dir)
    ),
  ];
}

/** A device that is plugged into a port: its backend's socket, and QEMU's arguments. */
export interface Pluggable {
  id: keyof typeof PORT;
  driver: string;
  /** of the types that QMP takes: newer versions of QEMU refuse "off" for a boolean there */
  options: Options;
}

type Options = Record<string, string | boolean>;

/** Devices of a VM that serve its vsock and its shared folder. */
export const PLUGGABLE: readonly Pluggable[] = [
  // A machine that is written down loses the notice of requests under way in its folder. With event indices
  // the guest would never give another one: its programs would wait for ever for files.
  { id: "files", driver: "vhost-user-fs-pci", options: { tag: "workspace", event_idx: false } },
  { id: "vsock", driver: "vhost-user-vsock-pci", options: {} },
];

function pluggedArguments({ id, driver, options }: Pluggable, dir: string): string[] {
  return [
    ...["-chardev", `socket,id=${id},path=${dir}/${SOCKETS[id]}`, "-device"],
    [driver, `id=${deviceId(id)}`, `chardev=${id}`, `bus=${PORT[id]}`, ...pairs(options)].join(","),
  ];
}

/** QEMU's name of a device, as opposed to that of its backend. */
export function deviceId(id: Pluggable["id"]): string {
  return `${id}-device`;
}

function port(id: keyof typeof PORT, slot: number): string[] {
  const options = { bus: "pcie.0", addr: PORT_ADDRESS[id], chassis: `${slot}`, slot: `${slot}` };
  return ["-device", ["pcie-root-port", `id=${PORT[id]}`, ...pairs(options)].join(",")];
}

function pairs(options: Options): string[] {
  const text = (value: string | boolean) => typeof value === "string" ? value : value ? "on" : "off";
  return Object.entries(options).map(([name, value]) => `${name}=${text(value)}`);
}

function boardArguments({ arch, cpus, ramMb, accelerator }: Size, memory: string): string[] {
  const board = BOARDS[arch];
  const cpu = cpuModel(board, accelerator);
  return [
    ...["-M", board.machine, "-accel", accelerator, "-cpu", cpu, "-smp", String(cpus), "-m", String(ramMb)],
    ...["-object", memory],
    ...["-nodefaults", "-no-user-config", "-no-reboot", "-display", "none", "-serial", "stdio"],
    ...["-sandbox", "on,obsolete=deny,elevateprivileges=deny,spawn=deny,resourcecontrol=deny"],
  ];
}

function kernelArguments({ arch, kernel, initrd, accelerator }: Kernel, parameters: string[]): string[] {
  const all = [...bootParameters(arch, accelerator === "tcg"), ...parameters];
  return ["-kernel", kernel, "-initrd", initrd, "-append", all.join(" ")];
}

/** Kernel parameters of every guest. @param console device of its console, where it is not QEMU's */
export function bootParameters(arch: Arch, isEmulated: boolean, console = BOARDS[arch].console): string[] {
  const board = BOARDS[arch];
  return [
    `console=${console}`,
    ...["quiet", "panic=-1", ...board.parameters],
    ...isEmulated ? [...EMULATION_PARAMETERS, ...board.emulated()] : board.native,
  ];
}

/** Line on the console of a machine without workspace, when its guest waits for devices to be plugged in. */
export const TEMPLATE_READY = "sbx-init: waiting for devices";

/** Kernel parameters of a VM's guest, some of them for init (lib/publish/image/init.ts). */
export function guestParameters(
  { scratch, workspace, before }: Pick<MachineSpec, "scratch" | "workspace" | "before">,
): string[] {
  const { factor } = TIME_FACTOR;
  return [
    // Root of a user namespace may mount files under other names; the agent allows
    // these where a VM has the ability.
    "sysctl.user.max_user_namespaces=0",
    ...scratch ? ["sbx_scratch=1"] : [],
    ...scratch && isEnlarged(scratch) ? ["sbx_grow=1"] : [],
    ...before ? ["sbx_before=1"] : [],
    ...workspace ? [] : ["sbx_template=1"],
    ...factor === 1 ? [] : [`sbx_time_factor=${factor}`],
  ];
}

function disk(
  id: keyof typeof ADDRESS,
  path: string,
  options: string,
  address: string = ADDRESS[id],
): string[] {
  // A comma in an option's value is escaped by doubling.
  const file = path.replaceAll(",", ",,");
  return [
    "-drive",
    `id=${id},file=${file},format=raw,if=none,${options}`,
    "-device",
    `virtio-blk-pci,drive=${id},serial=${id},bus=pcie.0,addr=${address}`,
  ];
}

/**
 * Kernel parameters of an emulated guest. Emulation caches translated code by address: with random addresses
 * every program is translated again at each start. With fixed ones a program starts five times faster; the
 * machine isolates the guest, not its ASLR. For the same reason the agent runs without a just-in-time
 * compiler, whose output would be translated once more.
 */
const EMULATION_PARAMETERS = ["norandmaps", "sbx_v8_flags=--jitless,--no-flush-bytecode"];

/** Frequency of the kernel's timer interrupt in Debian, in `Hz`. */
const KERNEL_HZ = 250;

/**
 * Kernel parameters for the clock of an emulated x86_64 guest. Under emulation the guest calibrates its clock
 * against an emulated timer, which is slow and inexact on a busy host. The guest's counter is the host's, so
 * a constant and known host frequency is passed instead; `lpj` is the same for a processor that starts later.
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
interface Board {
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

/**
 * A paused VM stands still by a signal to QEMU. Once it goes on, its kernel would find each processor stuck
 * for as long, and say so in its log.
 */
const NO_LOCKUPS = ["nosoftlockup", "rcupdate.rcu_cpu_stall_suppress=1"];

export const BOARDS: Record<Arch, Board> = {
  x86_64: {
    program: "qemu-system-x86_64",
    // Not `microvm`: under emulation by QEMU 10, half of its boots end in a kernel panic (invalid opcode,
    // while the kernel patches itself). Controllers without a device are left out.
    machine: "q35,memory-backend=mem0,sata=off,smbus=off,i8042=off,vmport=off,graphics=off",
    emulatedCpu: "max",
    // Of both vendors: QEMU knows both names on either, and emulates AMD's.
    withoutVirtualization: ",svm=off,vmx=off",
    console: "ttyS0",
    // Calls of 32-bit programs have numbers and arguments that nothing here can read
    // (cmd/guest/activity/proc.ts; Linux 6.7).
    parameters: ["reboot=t", "ia32_emulation=0"],
    // The counter goes on while a machine that was started from memory gets its devices, and the
    // emulated timers that the kernel checks it with do not: without this it takes the counter for
    // unstable, in each VM from a template.
    native: ["tsc=nowatchdog", ...NO_LOCKUPS],
    emulated: () => [
      // QEMU can keep the translation of code that another processor is changing, and then the guest's
      // kernel panics ("Oops: int3" in sched_clock_cpu: 3 of 100 boots on a busy host). It patches itself
      // while it boots, so it boots with one processor, and init starts the others; `noreplace-smp` spares
      // it a second patching for them.
      ...["maxcpus=1", "noreplace-smp"],
      ...bootClock(),
    ],
  },
  arm64: {
    program: "qemu-system-aarch64",
    // The newest interrupt controller that QEMU or the host has: version 2 ends at eight processors.
    machine: "virt,memory-backend=mem0,gic-version=max,highmem=on,virtualization=off",
    // `max` signs every return address, and computes each signature in software:
    // four times the time of a boot.
    emulatedCpu: "cortex-a72",
    // The machine decides.
    withoutVirtualization: "",
    console: "ttyAMA0",
    parameters: [],
    native: NO_LOCKUPS,
    emulated: () => [],
  },
};

/** Model of the processor of a board; its guests cannot run machines of their own. */
function cpuModel(board: Board, accelerator: Accelerator): string {
  return (accelerator === "kvm" ? "host" : board.emulatedCpu) + board.withoutVirtualization;
}
