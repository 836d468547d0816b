import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { acceleratorOf, lackOfProcessor } from "../../../lib/service/vm/suspension.ts";
import { type VmPaths, vmPaths } from "../../../lib/session/mod.ts";
import { writeBeside } from "../../../lib/session/suspend.ts";
import type { Accelerator, AcceleratorChoice } from "../../../lib/machine/vm/mod.ts";
import { recordOf } from "../../helper/vm.ts";

const CPU = "vendor_id : Intel\nmodel name : Xeon\nflags : sse avx avx512f";

/** @param here this host: its accelerator and processor */
async function resume(
  paths: VmPaths,
  here: { accelerator: Accelerator; processor?: string },
): Promise<AcceleratorChoice> {
  const host = { hypervisor: "qemu", processor: here.processor ?? CPU, machine: "q35" };
  return await acceleratorOf({ record: recordOf("id", "dev"), paths }, {
    accelerators: { choose: () => Promise.resolve({ accelerator: here.accelerator, reason: "as found" }) },
    hypervisor: { identity: () => Promise.resolve(host) },
  });
}

async function withMemory(
  accelerator: Accelerator | undefined,
  test: (paths: VmPaths) => Promise<void>,
): Promise<void> {
  const dir = await Deno.makeTempDir();
  const paths = vmPaths(dir);
  try {
    if (accelerator) {
      await Deno.mkdir(paths.suspended);
      const host = { hypervisor: "qemu", processor: CPU, machine: "q35" };
      await writeBeside(paths, { accelerator, host }, { programs: [] });
    }
    await test(paths);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

Deno.test("memory of an emulated machine goes on emulated, also where KVM works now", () =>
  withMemory("tcg", async (paths) => {
    assertEquals(
      (await resume(paths, { accelerator: "kvm", processor: "model name : other" })).accelerator,
      "tcg",
    );
  }));

Deno.test("a VM without memory starts as the host's machines do, and so does memory of an earlier sbx", async () => {
  await withMemory(undefined, async (paths) => {
    assertEquals((await resume(paths, { accelerator: "kvm" })).accelerator, "kvm");
  });
  await withMemory("tcg", async (paths) => {
    await Deno.remove(join(paths.suspended, "machine.json"));
    assertEquals((await resume(paths, { accelerator: "kvm" })).accelerator, "kvm");
  });
});

Deno.test("memory of a machine under KVM goes on under KVM alone, on its processor or one that can more", () =>
  withMemory("kvm", async (paths) => {
    const { accelerator } = await resume(paths, { accelerator: "kvm", processor: `${CPU} amx` });
    assertEquals(accelerator, "kvm");
    const refused = async (here: Parameters<typeof resume>[1]) => {
      const { code, message, hint } = await assertRejects(() => resume(paths, here), SbxError);
      return { code, message, hint };
    };
    assertEquals(await refused({ accelerator: "tcg" }), {
      code: "vm.host_differs",
      message:
        'the memory of "dev" is of a machine under kvm, and this host\'s machines are under tcg: as found',
      hint: "sbx doctor tries again what this host can do; " +
        "sbx stop dev gives its memory up: it then starts from its disk",
    });
    const other = await refused({ accelerator: "kvm", processor: CPU.replace("Xeon", "EPYC") });
    assertEquals(
      other.message,
      'the memory of "dev" is of a machine on another processor: it needs model name Xeon, this host has EPYC',
    );
  }));

Deno.test("a processor that lacks a feature of the memory's is named with it", () => {
  assertEquals(lackOfProcessor(CPU, CPU), undefined);
  assertEquals(
    lackOfProcessor(CPU, CPU.replace(" avx512f", "")),
    "it needs avx512f, which this host lacks",
  );
  assertEquals(lackOfProcessor(CPU, ""), "it needs vendor_id Intel, this host has none");
  assertEquals(
    lackOfProcessor("aarch64", "x86_64"),
    "it needs processor aarch64, this host has x86_64",
  );
});
