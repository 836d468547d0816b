import { type Arch, currentArch } from "../base/arch/mod.ts";
import { join } from "node:path";
import { writeAtomic } from "../base/home/mod.ts";
import { bareArguments } from "./command.ts";
import type { Accelerator } from "./hypervisor.ts";
import { findTools } from "./tools.ts";

/** Accelerator of this host's machines, and the reason; shown in a VM's info and in `sbx status`. */
export interface AcceleratorChoice {
  accelerator: Accelerator;
  reason: string;
}

/** Longest time for a stock kernel to boot and power off under a working KVM, in `ms`. */
const PROBE_DEADLINE_MS = 8000;

/**
 * Chooses KVM if it really runs a guest. `/dev/kvm` may exist and not work, so this boots the kernel to its
 * first program under a deadline, and stores the result until the host's kernel or QEMU changes.
 *
 * @param runDir folder of the stored result
 */
export async function chooseAccelerator(
  boot: { arch: Arch; kernel: string; initrd: string },
  runDir: string,
): Promise<AcceleratorChoice> {
  if (boot.arch !== currentArch()) {
    return { accelerator: "tcg", reason: `${boot.arch} is emulated on ${currentArch()}` };
  }
  const device = await Deno.open("/dev/kvm", { read: true, write: true }).catch((error) => error as Error);
  if (device instanceof Error) {
    const reason = device instanceof Deno.errors.NotFound
      ? "this host has no /dev/kvm"
      : "this user may not open /dev/kvm (add yourself to the group kvm)";
    return { accelerator: "tcg", reason };
  }
  device.close();
  const { qemu } = findTools();
  const key = `${Deno.osRelease()} ${(await Deno.stat(qemu)).mtime?.getTime()}`;
  const path = join(runDir, "accelerator.json");
  const stored = await readChoice(path);
  if (stored?.key === key) return stored;
  const choice: AcceleratorChoice = await bootsUnderKvm(qemu, boot)
    ? { accelerator: "kvm", reason: "KVM booted a kernel" }
    : { accelerator: "tcg", reason: "/dev/kvm exists but does not boot a kernel; VMs are emulated" };
  await writeAtomic(path, JSON.stringify({ key, ...choice }));
  return choice;
}

async function readChoice(path: string): Promise<AcceleratorChoice & { key: string } | undefined> {
  try {
    const { key, accelerator, reason } = JSON.parse(await Deno.readTextFile(path));
    return accelerator === "kvm" || accelerator === "tcg"
      ? { key, accelerator, reason: String(reason) }
      : undefined;
  } catch {
    return undefined;
  }
}

async function bootsUnderKvm(
  qemu: string,
  boot: { arch: Arch; kernel: string; initrd: string },
): Promise<boolean> {
  const args = bareArguments({ ...boot, accelerator: "kvm", cpus: 1, ramMb: 256 }, ["sbx_floor=1"]);
  // Without setpriv, a hanging guest would outlive a service that ends meanwhile.
  const child = new Deno.Command("setpriv", {
    args: ["--pdeathsig", "KILL", "--", qemu, ...args],
    stdin: "null",
    stdout: "null",
    stderr: "null",
  }).spawn();
  const killer = setTimeout(() => child.kill("SIGKILL"), PROBE_DEADLINE_MS);
  const { success } = await child.status;
  clearTimeout(killer);
  return success;
}
