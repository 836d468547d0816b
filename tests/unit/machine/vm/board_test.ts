/** QEMU's machines for guests of each architecture. */
import { assert, assertEquals, assertStringIncludes, assertThrows } from "@std/assert";
import { type Arch, ARCHES, currentArch, parseArch } from "../../../../lib/base/arch/mod.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { bareArguments, chooseAccelerator } from "../../../../lib/machine/vm/mod.ts";
import { imageIdentity } from "../../../../lib/machine/vm/qemu.ts";

const OTHER: Arch = currentArch() === "arm64" ? "x86_64" : "arm64";
const BOOT = { kernel: "/k", initrd: "/i", cpus: 2, ramMb: 512 };

const valueOf = (args: string[], name: string) => args[args.indexOf(name) + 1];

Deno.test("each architecture has its board, processor and console", () => {
  const facts = ARCHES.map((arch) => {
    const args = bareArguments({ ...BOOT, arch, accelerator: "tcg" });
    return [valueOf(args, "-M").split(",")[0], valueOf(args, "-cpu"), valueOf(args, "-append").split(" ")[0]];
  });
  assertEquals(facts, [["virt", "cortex-a72", "console=ttyAMA0"], [
    "q35",
    "max,svm=off,vmx=off",
    "console=ttyS0",
  ]]);
});

Deno.test("parameters for emulation of x86_64 stay out of arm64 guests, and those for emulation out of others", () => {
  const line = (arch: Arch, accelerator: "kvm" | "tcg") =>
    valueOf(bareArguments({ ...BOOT, arch, accelerator }, ["sbx_floor=1"]), "-append");
  assertStringIncludes(line("x86_64", "tcg"), "noreplace-smp");
  for (const word of ["maxcpus", "noreplace-smp", "reboot=t", "tsc"]) {
    assert(!line("arm64", "tcg").includes(word), word);
  }
  for (const arch of ARCHES) {
    assertStringIncludes(line(arch, "tcg"), "norandmaps");
    assert(!line(arch, "kvm").includes("norandmaps"), arch);
    assertStringIncludes(line(arch, "kvm"), " nosoftlockup ");
    assert(line(arch, "kvm").endsWith(" sbx_floor=1"), arch);
  }
  assertStringIncludes(line("x86_64", "kvm"), " tsc=nowatchdog ");
  assert(!line("x86_64", "tcg").includes("nowatchdog"));
});

Deno.test("no guest has the processor's virtualization, whatever runs it", () => {
  const facts = (arch: Arch) =>
    (["kvm", "tcg"] as const).map((accelerator) => {
      const args = bareArguments({ ...BOOT, arch, accelerator });
      return [valueOf(args, "-cpu"), valueOf(args, "-M").includes("virtualization=off")];
    });
  assertEquals(facts("x86_64"), [["host,svm=off,vmx=off", false], ["max,svm=off,vmx=off", false]]);
  assertEquals(facts("arm64"), [["host", true], ["cortex-a72", true]]);
});

Deno.test("guests of x86_64 run no 32-bit programs, whose calls rules cannot read", () => {
  const line = valueOf(bareArguments({ ...BOOT, arch: "x86_64", accelerator: "kvm" }), "-append");
  assertStringIncludes(line, " ia32_emulation=0 ");
});

Deno.test("a guest of another architecture is emulated, whatever this machine has", async () => {
  const { accelerator, reason } = await chooseAccelerator({ ...BOOT, arch: OTHER }, "/nowhere");
  assertEquals([accelerator, reason], ["tcg", `${OTHER} is emulated on ${currentArch()}`]);
});

Deno.test("memory of a machine under KVM is of one kernel of the host as well", async () => {
  const identity = (accelerator: "kvm" | "tcg") =>
    imageIdentity({ arch: currentArch(), cpus: 1, ramMb: 256, accelerator }, Deno.execPath());
  const [kvm, tcg] = await Promise.all([identity("kvm"), identity("tcg")]);
  assertEquals(kvm.hypervisor, `${tcg.hypervisor}, KVM of Linux ${Deno.osRelease()}`);
  assertEquals(kvm.processor, tcg.processor);
});

Deno.test("the name of an architecture is one of two", () => {
  assertEquals(ARCHES.map(parseArch), [...ARCHES]);
  const all = "write one of arm64, x86_64";
  for (
    const [name, expected] of [
      ["aarch64", 'did you mean "arm64"?'],
      ["amd64", 'did you mean "x86_64"?'],
      ["", all],
      ["arm64 ", all],
    ]
  ) {
    const { code, hint } = assertThrows(() => parseArch(name), SbxError);
    assertEquals([code, hint], ["arch.invalid", expected]);
  }
});
