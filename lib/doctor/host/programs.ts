/** Programs of the host: virtualization, QEMU, the vsock device, virtiofsd, user namespaces. */
import { join } from "node:path";
import { findProgram, lackOfSaveState, requireUserNamespace, TOOL_NAMES } from "../../vm/mod.ts";
import { failed, failure, type HostProbe, note, ok, type Outcome } from "./check.ts";
import type { HostSystem } from "./system.ts";

const [QEMU, VSOCK, VIRTIOFSD] = TOOL_NAMES;
const KVM_GROUP = 'sudo usermod -aG kvm "$USER", then log in again';

export const PROGRAM_PROBES: HostProbe[] = [
  { id: "virtualization", title: "virtualization", run: checkVirtualization },
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

/** Looks at /dev/kvm, and at what the first boot found out about it. */
async function checkVirtualization({ runDir }: { runDir: string }): Promise<Outcome> {
  const device = await Deno.open("/dev/kvm", { read: true, write: true }).catch((error) => error as Error);
  if (device instanceof Error) {
    if (!(device instanceof Deno.errors.NotFound)) {
      return failed("this user may not open /dev/kvm: VMs are emulated, which is slow", KVM_GROUP);
    }
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
  const stored = await Deno.readTextFile(join(runDir, "accelerator.json")).then(JSON.parse).catch(() =>
    undefined
  );
  if (stored?.accelerator === "kvm") return ok("KVM booted a kernel");
  if (stored?.accelerator === "tcg") return note(`${stored.reason}`);
  return ok("/dev/kvm opens; the first VM tries it");
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
