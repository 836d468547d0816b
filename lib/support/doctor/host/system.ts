/** Checks' questions to a machine: answered by the machine, or by a test in its place. */
import { resolveAssets } from "../../../release/asset/mod.ts";
import { currentArch } from "../../../base/arch/mod.ts";
import type { Home } from "../../../base/home/mod.ts";
import {
  type AcceleratorChoice,
  findProgram,
  hostHypervisor,
  type Hypervisor,
  probeAccelerator,
} from "../../../machine/vm/mod.ts";
import { timeLimit } from "../../../base/time/mod.ts";

/** Longest check, in `ms` (docs/design/contracts/11-debug-report.md §11). */
export const PROBE_MS = timeLimit(2000);

/** The machine that is checked. */
export interface HostSystem {
  /** `linux`, `darwin`, … */
  os: string;
  /** `x86_64` or `aarch64` */
  arch: string;
  /** the program that runs, which on a Mac must have the entitlement for virtual machines */
  exe: string;
  /** Path of a program that machines need; undefined where it is not installed. */
  find(name: string): string | undefined;
  /** Output of a program; undefined where it is missing, fails or takes too long. */
  output(program: string, args: readonly string[]): Promise<string | undefined>;
  hypervisor(): Pick<Hypervisor, "features" | "lackOf" | "requireHost">;
  /** KVM's device */
  kvm: string;
  /** Boots the installed kernel under KVM; undefined where no image is installed. */
  tryKvm(home: Home): Promise<AcceleratorChoice | undefined>;
}

/** This machine. */
export const THIS_SYSTEM: HostSystem = {
  os: Deno.build.os,
  arch: Deno.build.arch,
  exe: Deno.execPath(),
  find: findProgram,
  output,
  hypervisor: () => hostHypervisor(),
  kvm: "/dev/kvm",
  tryKvm,
};

async function output(program: string, args: readonly string[]): Promise<string | undefined> {
  try {
    const { success, stdout } = await new Deno.Command(program, {
      args: [...args],
      stdin: "null",
      stderr: "null",
      signal: AbortSignal.timeout(PROBE_MS),
    }).output();
    return success ? new TextDecoder().decode(stdout).trim() : undefined;
  } catch {
    return undefined;
  }
}

async function tryKvm(home: Home): Promise<AcceleratorChoice | undefined> {
  const arch = currentArch();
  const assets = await resolveAssets(home, arch).catch(() => undefined);
  if (!assets) return undefined;
  return await probeAccelerator(
    { arch, kernel: assets.kernel.path, initrd: assets.initrd.path },
    home.runDir,
  );
}
