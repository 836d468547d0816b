import { assertEquals, assertRejects, assertThrows } from "@std/assert";
import { LibraryError } from "../../../../ffi/SbxVM/binding.ts";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { hostHypervisor } from "../../../../lib/machine/vm/mod.ts";
import { libraryError } from "../../../../lib/machine/vm/vz_machine.ts";
import { fromRoot } from "../../../helper/repo.ts";

Deno.test("QEMU runs the VMs of this host, unless a library is named", () => {
  assertEquals(hostHypervisor("").name, "qemu");
});

Deno.test("a library that is missing, or is none, is an error with a remedy", async () => {
  for (const path of ["/no/such/library", fromRoot("Makefile")]) {
    const vz = hostHypervisor(path);
    for (const call of [() => vz.requireHost(), () => vz.features, () => vz.name]) {
      const error = assertThrows(call, SbxError, path);
      assertEquals([error.code, error.hint], [
        "host.tools_missing",
        "make dylib builds it on a Mac (docs/design/macos.md)",
      ]);
    }
    await assertRejects(
      async () => await vz.identity({ arch: "x86_64", cpus: 1, ramMb: 1, accelerator: "vz" }),
      SbxError,
    );
  }
});

Deno.test("errors of the library become ours; what only the call knows is its code", () => {
  const codes = [
    ["machine.ended", "process.gone"],
    ["handle.invalid", "process.gone"],
    ["feature.missing", "vm.not_supported"],
    ["image.invalid", "vm.image_failed"],
    ["hypervisor.failed", "vm.boot_failed"],
    ["spec.invalid", "vm.boot_failed"],
  ];
  for (const [theirs, ours] of codes) {
    const error = libraryError(new LibraryError(theirs, "why"), "vm.boot_failed", "it failed");
    assertEquals([error.code, error.message], [ours, "it failed: why"]);
  }
  assertEquals(libraryError(new TypeError("inner"), "vm.boot_failed", "it failed").message, "it failed");
  const own = new SbxError("vm.busy", "busy");
  assertEquals(libraryError(own, "vm.boot_failed", "it failed"), own);
});
