/** Programs of the host: virtualization, QEMU, the vsock device, virtiofsd, user namespaces. */
import type { Home } from "../../base/home/mod.ts";
import { limit } from "../../base/time/mod.ts";
import { findProgram, lackOfSaveState, requireUserNamespace, TOOL_NAMES } from "../../vm/mod.ts";
import { failed, failure, type HostProbe, note, ok, type Outcome } from "./check.ts";
import type { HostSystem } from "./system.ts";

const [QEMU, VSOCK, VIRTIOFSD] = TOOL_NAMES;
/** Longest trial of KVM, in `ms`: the trial has limits of its own, with a reason. */
const KVM_MS = limit(35_000);
const KVM_GROUP = 'sudo usermod -aG kvm "$USER", then log in again';

export const PROGRAM_PROBES: HostProbe[] = [
  { id: "virtualization", title: "virtualization", run: checkVirtualization, within: KVM_MS },
  {
    id: "qemu",
    title: "QEMU",
    run: (_, system) => checkProgram(system, QEMU, "sudo apt-get install qemu-system-x86"),
  },
  { id: "vsock", title: "vsock device", run: (_, system) => checkProgram(system, VSOCK, "make deps") },
  {
    id: "virtiofsd",
    title: "virtiofsd",
    run: (_, system) => checkProgram(system, VIRTIOFSD, "sudo apt-get install virtiofsd"),
  },
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
  return isOfGroup ? failed(detail, KVM_GROUP) : note(`${detail}; it is open to root alone`);
}

async function checkProgram({ output }: HostSystem, name: string, remedy: string): Promise<Outcome> {
  const path = findProgram(name);
  if (path === undefined) return failed(`${name} not found`, remedy);
  const answer = await output(path, ["--version"]);
  if (answer === undefined) return failed(`${path} does not run`, remedy);
  return ok(`${answer.match(/\d+(\.\d+)+/)?.[0] ?? "unknown version"} (${path})`);
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
    return failure(error, "make deps");
  }
}
