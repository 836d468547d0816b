/** Specifications that the library refuses, and its answers in buffers that are too short. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { SYMBOLS } from "../../ffi/SbxVM/binding.ts";
import { library, refused, World } from "./world.ts";

Deno.test("abilities: a reason for each feature that is missing, and for no other", () => {
  const { hypervisor, features, lacks } = library.abilities;
  assertEquals(hypervisor, "qemu-swift");
  const missing = Object.entries(features).filter(([, has]) => !has).map(([name]) => name);
  // Where a machine can be emulated, nobody asks why.
  assertEquals(Object.keys(lacks).toSorted(), missing.toSorted());
});

Deno.test("a specification that is no JSON, or has unknown, missing or invalid fields, is refused with the field", async () => {
  await using world = await World.make();
  const disk = { path: "/d", read_only: true };
  const cases: [unknown, string][] = [
    ["{", "not valid JSON"],
    ["", "not valid JSON"],
    ["null", "invalid specification"],
    ["[".repeat(100_000), "invalid specification"],
    [{ ...world.spec, extra: 1 }, "extra: unknown field"],
    [{ ...world.spec, disks: [disk, { ...disk, size: 1 }] }, "disks[1].size: unknown field"],
    [{ ...world.spec, share: { path: "/x", tag: "t", mode: 1 } }, "share.mode: unknown field"],
    [{ ...world.spec, share: { path: "/x", tag: "" } }, "share.tag: must be 1 to 36 bytes"],
    [{ ...world.spec, kernel: undefined }, "kernel: missing"],
    [{ ...world.spec, kernel: null }, "kernel: is null"],
    [{ ...world.spec, kernel: "vmlinuz" }, "kernel: must be an absolute path"],
    [{ ...world.spec, kernel: "/a\0b" }, "kernel: must be an absolute path"],
    [{ ...world.spec, cpus: 0 }, "cpus: must be 1 to 64"],
    [{ ...world.spec, cpus: 1.5 }, "invalid specification"],
    [{ ...world.spec, cpus: "2" }, "cpus: is not of the type"],
    [{ ...world.spec, memory_mb: -1 }, "invalid specification"],
    [{ ...world.spec, memory_mb: 2 ** 40 }, "memory_mb: must be"],
    [{ ...world.spec, ports: [-1] }, "invalid specification"],
    [{ ...world.spec, ports: [2 ** 32] }, "invalid specification"],
    [{ ...world.spec, ports: Array(65).fill(1) }, "ports: must be at most 64"],
    [{ ...world.spec, disks: Array(9).fill(disk) }, "disks: must be at most 8"],
  ];
  for (const [spec, expected] of cases) {
    const json = typeof spec === "string" ? spec : JSON.stringify(spec);
    assertStringIncludes(
      await refused(() => library.create(json), "spec.invalid"),
      expected,
      json.slice(0, 300),
    );
  }
});

Deno.test("answers are cut to their buffer, which may be absent, and nothing is written behind it", () => {
  const { symbols } = Deno.dlopen(Deno.env.get("SBX_VM_LIBRARY")!, SYMBOLS);
  const text = new TextEncoder().encode("{");
  for (const size of [0, 1, 2, 17]) {
    const buffer = new Uint8Array(64).fill(0xaa);
    assertEquals(symbols.sbxvm_create(text, BigInt(text.length), buffer, BigInt(size)), 0n);
    assert(buffer.subarray(size).every((byte) => byte === 0xaa), `a buffer of ${size} bytes`);
    if (size > 0) assertEquals(buffer[size - 1], 0);
  }
  assertEquals(symbols.sbxvm_create(text, 1n, null, 0n), 0n);
  assertEquals(symbols.sbxvm_create(null, 5n, null, 5n), 0n);
  assertEquals(symbols.sbxvm_create(text, 2n ** 63n, null, 0n), 0n);
  const short = new Uint8Array(8);
  const length = Number(symbols.sbxvm_features(short, 8n));
  assert(length > 8 && length === Number(symbols.sbxvm_features(null, 0n)));
});
