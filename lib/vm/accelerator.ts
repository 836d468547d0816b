import { join } from "node:path";
import { writeAtomic } from "../base/home/atomic.ts";
import { bareArguments } from "./command.ts";
import type { Accelerator } from "./hypervisor.ts";
import { findTools } from "./tools.ts";

/** Which accelerator machines get here, and why: shown in a VM's info and in `sbx status`. */
export interface AcceleratorChoice {
  accelerator: Accelerator;
  reason: string;
}

/** A stock kernel that has not powered off by then does not run under this KVM. */
const PROBE_DEADLINE_MS = 8000;

/**
 * Whether KVM really runs a guest here. `/dev/kvm` may be there and not work, so the answer is found by booting the
 * kernel to its first program under a deadline, and remembered until the host's kernel or QEMU changes.
 *
 * @param runDir where the answer is kept
 */
export async function chooseAccelerator(
  boot: { kernel: string; initrd: string },
  runDir: string,
): Promise<AcceleratorChoice> {
  const device = await Deno.open("/dev/kvm", { read: true, write: true }).catch((error) => error as Error);
  if (device instanceof Error) {
    const reason = device instanceof Deno.errors.NotFound
      ? "this host has no /dev/kvm"
      : "/dev/kvm is there but this user may not open it (add yourself to the group kvm)";
    return { accelerator: "tcg", reason };
  }
  device.close();
  const { qemu } = findTools();
  const key = `${Deno.osRelease()} ${(await Deno.stat(qemu)).mtime?.getTime()}`;
  const path = join(runDir, "accelerator.json");
  const known = await readChoice(path);
  if (known?.key === key) return known;
  const works = await bootsUnderKvm(qemu, boot);
  const choice: AcceleratorChoice = works
    ? { accelerator: "kvm", reason: "KVM booted a kernel" }
    : { accelerator: "tcg", reason: "/dev/kvm is there but does not boot a kernel; VMs are emulated" };
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

async function bootsUnderKvm(qemu: string, boot: { kernel: string; initrd: string }): Promise<boolean> {
  const args = bareArguments({ ...boot, accelerator: "kvm", cpus: 1, ramMb: 256 }, ["sbx_floor=1"]);
  // A guest that hangs would outlive a service that is ended meanwhile.
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
