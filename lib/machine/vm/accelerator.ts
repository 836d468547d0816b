import { join } from "node:path";
import { z } from "zod";
import { currentArch } from "../../base/arch/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { BOARDS } from "./board.ts";
import type { Accelerator } from "./hypervisor.ts";
import { type ProbeBoot, probeKvm, type ProbeLimits, type ProbeResult } from "./kvm_probe.ts";
import { findProgram, findTools } from "./tools.ts";

/** Accelerator of this host's machines, and the reason; shown in a VM's info and in `sbx status`. */
export interface AcceleratorChoice {
  accelerator: Accelerator;
  reason: string;
  /** another trial could end differently: QEMU was refused KVM, or a boot was slow or broke off */
  isUnsure?: true;
}

/** Where a host has KVM and QEMU; another place in tests. */
export interface KvmHost {
  device: string;
  qemu(): string;
  limits?: ProbeLimits;
}

const THIS_HOST: KvmHost = {
  device: "/dev/kvm",
  qemu: () => findProgram(BOARDS[currentArch()].program) ?? findTools().qemu,
};

const Stored = z.strictObject({
  schema: z.literal("sbx.accelerator.v1"),
  key: z.string(),
  accelerator: z.enum(["kvm", "tcg"]),
  reason: z.string(),
});

const BOOT_ID = "/proc/sys/kernel/random/boot_id";

/** Outcomes of a trial that decide for good; after others KVM is tried again. */
const SURE: readonly ProbeResult["outcome"][] = ["booted", "interpreted"];

/**
 * Chooses KVM if it runs a guest: `/dev/kvm` may exist and not work. A sure result of a trial is stored until the host
 * restarts or its QEMU changes.
 *
 * @param runDir folder of the stored result
 */
export async function chooseAccelerator(
  boot: ProbeBoot,
  runDir: string,
  host: KvmHost = THIS_HOST,
): Promise<AcceleratorChoice> {
  return await knownAccelerator(boot, runDir, host) ?? await probeAccelerator(boot, runDir, host);
}

/** The choice that needs no trial. @returns undefined: KVM is there, and no sure result is stored */
export async function knownAccelerator(
  boot: ProbeBoot,
  runDir: string,
  host: KvmHost = THIS_HOST,
): Promise<AcceleratorChoice | undefined> {
  const lack = await lackOfKvm(boot, host);
  if (lack !== undefined) return { accelerator: "tcg", reason: lack };
  return await readChoice(runDir, await keyOf(host.qemu()));
}

/**
 * Tries KVM, ignoring any stored result. A sure result is stored for {@linkcode chooseAccelerator}; any other
 * removes the stored one.
 */
export async function probeAccelerator(
  boot: ProbeBoot,
  runDir: string,
  host: KvmHost = THIS_HOST,
): Promise<AcceleratorChoice> {
  const lack = await lackOfKvm(boot, host);
  if (lack !== undefined) return { accelerator: "tcg", reason: lack };
  const qemu = host.qemu();
  const dir = await Deno.makeTempDir({ prefix: "sbx-kvm-" });
  try {
    const { outcome, reason } = await probeKvm(qemu, boot, dir, host.limits);
    const isSure = SURE.includes(outcome);
    const accelerator = outcome === "booted" ? "kvm" : "tcg";
    await storeChoice(runDir, isSure ? { key: await keyOf(qemu), accelerator, reason } : undefined);
    if (accelerator === "kvm") return { accelerator, reason };
    return { accelerator, reason: `${reason}; VMs are emulated`, ...isSure ? {} : { isUnsure: true } };
  } finally {
    await Deno.remove(dir, { recursive: true }).catch(() => {});
  }
}

/** Why guests are emulated without a trial; `undefined` where KVM can be tried. */
async function lackOfKvm({ arch }: ProbeBoot, { device }: KvmHost): Promise<string | undefined> {
  if (arch !== currentArch()) return `${arch} is emulated on ${currentArch()}`;
  const opened = await Deno.open(device, { read: true, write: true }).catch((error) => error as Error);
  if (!(opened instanceof Error)) return void opened.close();
  return opened instanceof Deno.errors.NotFound
    ? "this host has no /dev/kvm"
    : "this user may not open /dev/kvm; sbx doctor says what to do";
}

/** A host's QEMU, and one run of its kernel: results may differ after a restart. */
async function keyOf(qemu: string): Promise<string> {
  const [bootId, { mtime }] = await Promise.all([Deno.readTextFile(BOOT_ID), Deno.stat(qemu)]);
  return `${bootId.trim()} ${qemu} ${mtime?.getTime()}`;
}

async function readChoice(runDir: string, key: string): Promise<AcceleratorChoice | undefined> {
  try {
    const stored = Stored.parse(JSON.parse(await Deno.readTextFile(pathIn(runDir))));
    const { accelerator, reason } = stored;
    if (stored.key !== key) return undefined;
    return { accelerator, reason: accelerator === "kvm" ? reason : `${reason}; VMs are emulated` };
  } catch {
    return undefined;
  }
}

async function storeChoice(
  runDir: string,
  choice: Pick<z.infer<typeof Stored>, "key" | "accelerator" | "reason"> | undefined,
): Promise<void> {
  const path = pathIn(runDir);
  if (!choice) return await Deno.remove(path).catch(() => {});
  // A run folder that cannot be written costs another trial.
  await writeAtomic(path, JSON.stringify({ schema: "sbx.accelerator.v1", ...choice })).catch(() => {});
}

function pathIn(runDir: string): string {
  return join(runDir, "accelerator.json");
}
