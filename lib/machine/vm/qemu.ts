import { MemoryFile } from "../../../ffi/libc/memory.ts";
import type { Arch } from "../../base/arch/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { machineArguments, type MachineStart } from "./command.ts";
import { Helpers, spawnBound } from "./helper.ts";
import type {
  Features,
  Hypervisor,
  ImageIdentity,
  Machine,
  MachineImage,
  MachineSpec,
} from "./hypervisor.ts";
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

  async start(spec: MachineSpec): Promise<Machine> {
    const helpers = spawnHelpers(spec);
    try {
      // QEMU connects to them when it starts.
      await helpers?.listening();
      return spawnMachine(spec, helpers, { from: "kernel", plugged: helpers ? ["files", "vsock"] : [] });
    } catch (error) {
      await helpers?.kill();
      throw error;
    }
  }

  async restore(spec: MachineSpec, image: MachineImage): Promise<Machine> {
    const helpers = spawnHelpers(spec);
    let machine: QemuMachine | undefined;
    try {
      const plugged = await readPlugged(image);
      if (plugged.length > 0) await helpers?.listening();
      machine = spawnMachine(spec, helpers, { from: "memory", plugged });
      const late = rejectAfter(RESTORE_DEADLINE_MS, () => new Error("QEMU did not answer in time"));
      await Promise.race([load(machine, helpers, image), late]);
      return machine;
    } catch (cause) {
      await (machine ?? helpers)?.kill();
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

function spawnHelpers(spec: MachineSpec): Helpers | undefined {
  const { workspace } = spec;
  return workspace === undefined ? undefined : new Helpers(findTools(spec.arch), { ...spec, workspace });
}

function spawnMachine(spec: MachineSpec, helpers: Helpers | undefined, start: MachineStart): QemuMachine {
  const memory = new MemoryFile("sbx-memory", spec.ramMb * MIB);
  try {
    const args = machineArguments(spec, memory.path, start);
    const child = spawnBound("qemu", findTools(spec.arch).qemu, args, spec.logs, { takesInput: true });
    return new QemuMachine({ child, helpers, memory, spec, plugged: start.plugged });
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
