/** A machine under QEMU: its programs, its features and its identity. */
import { MemoryFile } from "../../../ffi/libc/memory.ts";
import type { Arch } from "../../base/arch/mod.ts";
import { prepareLauncher } from "../../base/confine/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { machineArguments, type MachineStart } from "./command.ts";
import { Helpers, spawnConfined } from "./helper.ts";
import type {
  Features,
  Hypervisor,
  ImageIdentity,
  Machine,
  MachineImage,
  MachineSpec,
} from "./hypervisor.ts";
import { Launcher } from "./launcher.ts";
import { QemuMachine, readPlugged } from "./machine.ts";
import { findTools, lackOfSaveState } from "./tools.ts";

const MIB = 1024 * 1024;
/** Features that nothing on Linux would bring. */
const MAC_ALONE = {
  rosetta: "is part of macOS on Apple silicon",
  nested: "is given to single VMs on Macs alone; with KVM it is a setting of the host's kernel",
};
/**
 * Longest time for QEMU to take over memory and devices, in `ms`; a slow disk reads the 220
 * MB of a template in ten seconds.
 */
const RESTORE_DEADLINE_MS = timeLimit(20_000);

/**
 * A machine of QEMU. Separate programs serve its vsock and shared folder over vhost-user, so that neither
 * needs a kernel module or root on the host.
 */
export class Qemu implements Hypervisor {
  readonly name = "qemu";
  #lack: Record<string, string | undefined> | undefined;

  get features(): Features {
    const can = (feature: string) => this.lackOf(feature) === undefined;
    return {
      pause: true,
      templates: true,
      save_state: can("save_state"),
      live_fork: can("live_fork"),
      shared_folder: true,
      emulation: true,
      rate_limits: true,
    };
  }

  lackOf(feature: string): string | undefined {
    if (!this.#lack) {
      const save_state = lackOfSaveState();
      this.#lack = { save_state, live_fork: save_state, ...MAC_ALONE };
    }
    return this.#lack[feature];
  }

  requireHost(arch?: Arch): void {
    findTools(arch);
  }

  identity = imageIdentity;
  prepare = prepareLauncher;

  async start(spec: MachineSpec): Promise<Machine> {
    const programs = startHelpers(spec);
    const { helpers } = programs;
    try {
      // QEMU connects to them when it starts.
      await helpers?.listening();
      const plugged = helpers ? ["files", "vsock"] as const : [];
      return await spawnMachine(spec, programs, { from: "kernel", plugged });
    } catch (error) {
      await end(programs);
      throw error;
    }
  }

  async restore(spec: MachineSpec, image: MachineImage): Promise<Machine> {
    const programs = startHelpers(spec);
    const { helpers } = programs;
    let machine: QemuMachine | undefined;
    try {
      const plugged = await readPlugged(image);
      if (plugged.length > 0) await helpers?.listening();
      machine = await spawnMachine(spec, programs, { from: "memory", plugged });
      const late = rejectAfter(RESTORE_DEADLINE_MS, () => new Error("QEMU did not answer in time"));
      await Promise.race([load(machine, helpers, image), late]);
      return machine;
    } catch (cause) {
      await (machine ? machine.kill() : end(programs));
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SbxError("vm.image_failed", `the machine could not be started from memory: ${reason}`, {
        cause,
      });
    }
  }
}

async function load(
  machine: QemuMachine,
  helpers: Helpers | undefined,
  image: MachineImage,
): Promise<void> {
  await Promise.all([machine.fill(image), helpers?.listening()]);
  await machine.load(image);
}

/** Programs of a machine before its QEMU runs. */
interface Programs {
  launcher: Launcher;
  helpers?: Helpers;
}

function startHelpers(spec: MachineSpec): Programs {
  const { workspace } = spec;
  const tools = findTools(spec.arch);
  const launcher = new Launcher(spec);
  if (workspace === undefined) return { launcher };
  try {
    return { launcher, helpers: new Helpers(tools, { ...spec, workspace }, launcher) };
  } catch (error) {
    launcher.close();
    throw error;
  }
}

async function end({ launcher, helpers }: Programs): Promise<void> {
  await helpers?.kill();
  launcher.close();
}

async function spawnMachine(
  spec: MachineSpec,
  { launcher, helpers }: Programs,
  start: MachineStart,
): Promise<QemuMachine> {
  const memory = new MemoryFile("sbx-memory", spec.ramMb * MIB);
  try {
    const argv = [findTools(spec.arch).qemu, ...machineArguments(spec, memory.path, start)];
    const child = await spawnConfined(launcher, "qemu", argv, spec.logs, [memory.descriptor]);
    return new QemuMachine({ child, launcher, helpers, memory, spec, plugged: start.plugged });
  } catch (error) {
    memory.close();
    throw error;
  }
}

/** Fields of /proc/cpuinfo that say which instructions there are. */
const CPU_FIELDS = /^(vendor_id|cpu family|model|model name|stepping|flags|CPU \w+|Features)\s*:.*$/gm;

/**
 * Identity of the machines that a host starts now: QEMU's program and KVM's kernel, the
 * processor, and the command line.
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
