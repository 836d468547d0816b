/** Programs of the host: virtualization, QEMU, the vsock device, virtiofsd, user namespaces. */
import { type Home, isPackaged } from "../../../base/home/mod.ts";
import { timeLimit } from "../../../base/time/mod.ts";
import {
  findProgram,
  lackOfSaveState,
  QEMU_PACKAGE,
  requireUserNamespace,
  TOOL_NAMES,
  tryConfinement,
  versionCommand,
} from "../../../machine/vm/mod.ts";
import { failed, failure, type HostProbe, note, ok, type Outcome } from "./check.ts";
import type { HostSystem } from "./system.ts";

const [QEMU, VSOCK, VIRTIOFSD] = TOOL_NAMES;
/** Longest trial of KVM, in `ms`: the trial has limits of its own, with a reason. */
const KVM_MS = timeLimit(35_000);
/** Installs the host programs that sbx needs. */
const DEPS = isPackaged() ? install("sbx") : "make deps";
const KVM_GROUP = 'sudo usermod -aG kvm "$USER", then log in again';

export const PROGRAM_PROBES: HostProbe[] = [
  { id: "virtualization", title: "virtualization", run: checkVirtualization, within: KVM_MS },
  {
    id: "qemu",
    title: "QEMU",
    run: async (_, system) => withLimit(await checkProgram(system, QEMU, () => install(QEMU_PACKAGE))),
  },
  { id: "vsock", title: "vsock device", run: (_, system) => checkProgram(system, VSOCK, () => DEPS) },
  {
    id: "virtiofsd",
    title: "virtiofsd",
    run: (_, system) => checkProgram(system, VIRTIOFSD, () => virtiofsdRemedy(system)),
  },
  { id: "confinement", title: "confined machines", run: checkConfinement },
  { id: "features", title: "suspend and fork", run: checkFeatures },
  { id: "uidmap", title: "subordinate ids", run: checkUidmap },
];

/** Tries KVM with the installed kernel, whatever the service found when it did. */
async function checkVirtualization(home: Home, { kvm, tryKvm }: HostSystem): Promise<Outcome> {
  const device = await Deno.open(kvm, { read: true, write: true }).catch((error) => error as Error);
  if (device instanceof Error) {
    if (!(device instanceof Deno.errors.NotFound)) return await closedDevice(kvm);
    const flags = await Deno.readTextFile("/proc/cpuinfo").catch(() => "");
    const vendor = /\b(vmx|svm)\b/.exec(flags)?.[1];
    return vendor === undefined
      ? note("no /dev/kvm, and this processor offers no virtualization: VMs are emulated, which is slow")
      : failed(
        "no /dev/kvm: VMs are emulated, which is slow",
        `sudo modprobe ${vendor === "vmx" ? "kvm_intel" : "kvm_amd"}`,
      );
  }
  device.close();
  const choice = await tryKvm(home);
  if (!choice) return note(`${kvm} opens; whether it boots a kernel is tried once an image is installed`);
  const { accelerator, reason } = choice;
  return accelerator === "kvm" ? ok(`tried now: ${reason}`) : note(`tried now: ${reason}, which is slow`);
}

/** A device that this user may not open. The group helps where the device is its own. */
async function closedDevice(kvm: string): Promise<Outcome> {
  const detail = `this user may not open ${kvm}: VMs are emulated, which is slow`;
  const [{ gid, mode }, groups] = await Promise.all([
    Deno.stat(kvm),
    Deno.readTextFile("/etc/group").catch(() => ""),
  ]);
  const isOfGroup = new RegExp(`^kvm:[^:]*:${gid}:`, "m").test(groups) && ((mode ?? 0) & 0o060) === 0o060;
  return isOfGroup ? failed(detail, KVM_GROUP) : note(`${detail}; the device lets no group kvm in`);
}

async function checkProgram(
  { find, output }: HostSystem,
  name: string,
  remedy: () => string | Promise<string>,
): Promise<Outcome> {
  const path = find(name);
  if (path === undefined) return failed(`${name} not found`, await remedy());
  const answer = await output(...versionCommand(path));
  if (answer === undefined) return failed(`${path} does not run`, await remedy());
  return ok(`${answer.match(/\d+(\.\d+)+/)?.[0] ?? "unknown version"} (${path})`);
}

/**
 * Before 8.1, an emulated processor reads an instruction byte by byte, also while another one replaces it. A
 * JVM replaces instructions of its compiled code all the time, other programs hardly ever.
 */
function withLimit(outcome: Outcome): Outcome {
  const [, major, minor] = /^(\d+)\.(\d+)/.exec(outcome.detail) ?? [];
  if (major === undefined || Number(major) > 8 || Number(major) === 8 && Number(minor) > 0) return outcome;
  const limit = "emulated, it can crash a JVM on several processors: --cpus 1, or QEMU 8.1 or later";
  return { ...outcome, detail: `${outcome.detail}; ${limit}` };
}

/** Debian has virtiofsd as a package of its own from trixie on; before, QEMU's package brings it. */
async function virtiofsdRemedy({ output }: HostSystem): Promise<string> {
  const isOwnPackage = await output("apt-cache", ["show", "virtiofsd"]) !== undefined;
  return install(isOwnPackage ? "virtiofsd" : "qemu-system-common");
}

function install(name: string): string {
  return `sudo apt-get install --reinstall ${name}`;
}

/** Confines a thread as for the programs of a machine. */
async function checkConfinement(): Promise<Outcome> {
  try {
    const version = await tryConfinement();
    return version > 0
      ? ok(`QEMU has its VM's files and no network (Landlock ${version}, seccomp): tried now`)
      : note(
        "QEMU has no network, but can read this user's files: Linux without Landlock (5.13, lsm=landlock)",
      );
  } catch (error) {
    return failure(error, "sbx doctor --report");
  }
}

function checkFeatures(): Outcome {
  if (findProgram(QEMU) === undefined || findProgram(VIRTIOFSD) === undefined) {
    return note("unknown without QEMU and virtiofsd");
  }
  const lack = lackOfSaveState();
  return lack === undefined ? ok("VMs can be suspended and forked") : note(lack);
}

function checkUidmap(): Outcome {
  try {
    requireUserNamespace();
    return ok(Deno.uid() === 0 ? "not needed by root" : "this user has them");
  } catch (error) {
    return failure(error, DEPS);
  }
}
