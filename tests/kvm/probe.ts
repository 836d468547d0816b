/** The trial of KVM, with a kernel that boots under it, and with each reason for which none does. */
import { assertEquals, assertMatch } from "@std/assert";
import { join } from "node:path";
import { currentArch } from "../../lib/base/arch/mod.ts";
import { timeLimit } from "../../lib/base/time/mod.ts";
import {
  type AcceleratorChoice,
  chooseAccelerator,
  findTools,
  probeAccelerator,
} from "../../lib/machine/vm/mod.ts";
import { exists } from "../helper/exists.ts";
import type { Scenario, World } from "./world.ts";

/**
 * Limits of a trial in `ms`: of the product, of one that is not waited for, and of a guest that does nothing.
 */
const PATIENT = { boot: timeLimit(30_000), still: timeLimit(8000), interval: 250 };
const HASTY = { ...PATIENT, boot: 1000 };
const STILL = { ...PATIENT, still: 3000 };

/** Programs in QEMU's place; each but the last runs QEMU itself. */
const QEMUS = {
  plain: 'exec "$QEMU" "$@"',
  panics:
    'for at in "${!args[@]}"; do [ "${args[at]}" != -append ] || args[at+1]+=" rdinit=/missing"; done\n' +
    'exec "$QEMU" "${args[@]}"',
  stands: 'exec "$QEMU" "$@" -S',
  refused: 'echo "qemu-system-x86_64: ioctl(KVM_CREATE_VM) failed: 16 Device or resource busy" >&2; exit 1',
};

/** Tries KVM with one of the programs. @returns the choice, and whether it is kept */
async function trial(world: World, qemu: keyof typeof QEMUS, limits: typeof PATIENT) {
  const dir = await Deno.makeTempDir();
  try {
    const program = join(dir, "qemu");
    const lines = ["#!/bin/bash", `QEMU=${findTools().qemu}`, 'args=("$@")', QEMUS[qemu], ""];
    await Deno.writeTextFile(program, lines.join("\n"), { mode: 0o755 });
    const host = { device: "/dev/kvm", qemu: () => program, limits };
    const boot = { arch: currentArch(), kernel: world.asset("vmlinuz-"), initrd: world.asset("initrd-") };
    const choice = await probeAccelerator(boot, dir, host);
    const isKept = await exists(join(dir, "accelerator.json"));
    if (isKept) assertEquals(await chooseAccelerator(boot, dir, host), choice);
    return { choice, isKept };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

async function emulated(
  world: World,
  ...[qemu, limits, reason]: [keyof typeof QEMUS, typeof PATIENT, RegExp]
) {
  const { choice, isKept } = await trial(world, qemu, limits);
  assertEquals([choice.accelerator, choice.isUnsure, isKept], ["tcg", true, false]);
  assertMatch((choice as AcceleratorChoice).reason, reason);
}

export const PROBE: Scenario[] = [
  {
    name: "the trial of KVM boots a kernel, and its result is kept",
    run: async (world) => {
      const { choice, isKept } = await trial(world, "plain", PATIENT);
      assertMatch(choice.reason, /^KVM booted a kernel to its first program in \d+\.\d s$/);
      assertEquals([choice.accelerator, choice.isUnsure, isKept], ["kvm", undefined, true]);
      return choice.reason;
    },
  },
  {
    name:
      "a kernel that panics under KVM, a slow one, a still one, and a QEMU without KVM are not taken, and not kept",
    run: async (world) => {
      await emulated(world, "panics", PATIENT, /^the kernel panicked under KVM: .*; VMs are emulated$/);
      await emulated(world, "plain", HASTY, /^KVM did not boot a kernel to its first program in 1 s/);
      await emulated(world, "stands", STILL, /^the guest did nothing under KVM for 3 s/);
      await emulated(world, "refused", PATIENT, /^QEMU cannot use KVM: .*Device or resource busy/);
    },
  },
];
