import { MemoryFile } from "../../ffi/libc/memory.ts";
import { SbxError } from "../base/error/mod.ts";
import { rejectAfter } from "../base/time/mod.ts";
import { spawnBound } from "./child.ts";
import { machineArguments, type MachineStart } from "./command.ts";
import { Helpers } from "./helper.ts";
import type { Features, Hypervisor, Machine, MachineImage, MachineSpec } from "./hypervisor.ts";
import { imageIdentity } from "./identity.ts";
import { QemuMachine } from "./machine.ts";
import { findTools } from "./tools.ts";

const MIB = 1024 * 1024;
/** Longest time for QEMU to take over memory and devices, in `ms`; a slow disk reads the 220 MB of a template in ten seconds. */
const RESTORE_DEADLINE_MS = 20_000;

/**
 * A q35 machine of QEMU. Separate programs serve its vsock and shared folder over vhost-user, so that neither needs
 * a kernel module or root on the host.
 */
export class Qemu implements Hypervisor {
  readonly name = "qemu";
  readonly features: Features = { pause: true, save_state: false, shared_folder: true, emulation: true };

  async start(spec: MachineSpec): Promise<Machine> {
    const helpers = spawnHelpers(spec);
    try {
      // QEMU connects to them when it starts.
      await helpers?.listening();
      return spawnMachine(spec, helpers, "boot");
    } catch (error) {
      await helpers?.kill();
      throw error;
    }
  }

  identity = imageIdentity;

  async restore(spec: MachineSpec, image: MachineImage): Promise<Machine> {
    const helpers = spawnHelpers(spec);
    let machine: QemuMachine | undefined;
    try {
      machine = spawnMachine(spec, helpers, "restore");
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
  return workspace === undefined ? undefined : new Helpers(findTools(), { ...spec, workspace });
}

function spawnMachine(spec: MachineSpec, helpers: Helpers | undefined, start: MachineStart): QemuMachine {
  const memory = new MemoryFile("sbx-memory", spec.ramMb * MIB);
  try {
    const args = machineArguments(spec, memory.path, start);
    const child = spawnBound("qemu", findTools().qemu, args, spec.logs);
    return new QemuMachine({ child, helpers: helpers?.children ?? [], memory, spec });
  } catch (error) {
    memory.close();
    throw error;
  }
}
