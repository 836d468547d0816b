/** The memory of a suspended VM on the disk. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { copyLinks, copySparse } from "../../../lib/base/copy/mod.ts";
import {
  discard,
  discardUnfinished,
  isSuspended,
  readGuest,
  readOrigin,
  writeBeside,
} from "../../../lib/session/suspend.ts";

Deno.test("memory is there or not: a removal that is cut off leaves none that cannot be taken up", async () => {
  const dir = await Deno.makeTempDir();
  const place = { suspended: join(dir, "suspended"), scratch: join(dir, "scratch.img") };
  const write = async () => {
    await Deno.mkdir(join(place.suspended, "image"), { recursive: true });
    await Deno.writeTextFile(join(place.suspended, "image/ram"), "memory");
  };
  const { remove } = Deno;
  try {
    await write();
    assertEquals(await isSuspended(place), true);
    // As if its process were killed when it has begun to remove.
    Deno.remove = (path) =>
      String(path).includes("old") && existsIn(dir, "suspended.old")
        ? Promise.reject(new Error("killed"))
        : remove(path, { recursive: true });
    await assertRejects(() => discard(place), Error, "killed");
    assertEquals(await isSuspended(place), false);
    Deno.remove = remove;
    await write();
    await discard(place);
    assertEquals([...Deno.readDirSync(dir)], [], "what was left of another removal is in nobody's way");
    await Deno.mkdir(`${place.suspended}.old`);
    await Deno.mkdir(`${place.suspended}.new`);
    await discardUnfinished(place);
    assertEquals([...Deno.readDirSync(dir)], []);
    await discard(place);
  } finally {
    Deno.remove = remove;
    await remove(dir, { recursive: true });
  }
});

Deno.test("memory is of use while its VM's disk is as it was, also for a copy", async () => {
  const dir = await Deno.makeTempDir();
  const place = (name: string) => ({
    suspended: join(dir, `${name}.suspended`),
    scratch: join(dir, `${name}.img`),
  });
  const [vm, copy, bare] = ["vm", "copy", "bare"].map(place);
  const origin = {
    accelerator: "tcg" as const,
    host: { hypervisor: "qemu", processor: "model name : x", machine: "q35" },
  };
  try {
    for (const each of [vm, bare]) await Deno.mkdir(each.suspended);
    await Deno.writeTextFile(vm.scratch, "disk");
    await writeBeside(vm, origin, { programs: [] });
    await writeBeside(bare, origin, { programs: [] });
    await copySparse(vm.scratch, copy.scratch);
    await copyLinks(vm.suspended, copy.suspended);
    const kept = () => Promise.all([vm, copy, bare].map(isSuspended));
    assertEquals(await kept(), [true, true, true]);
    assertEquals([await readOrigin(copy), await readGuest(copy)], [origin, { programs: [] }]);
    await Deno.writeTextFile(copy.scratch, "risk");
    await Deno.writeTextFile(bare.scratch, "");
    assertEquals(await kept(), [true, false, false]);
    // Memory of an earlier sbx has no word on its disk or machine.
    for (const name of ["disk", "machine.json"]) await Deno.remove(join(copy.suspended, name));
    assertEquals([await isSuspended(copy), await readOrigin(copy)], [true, undefined]);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

function existsIn(dir: string, name: string): boolean {
  return [...Deno.readDirSync(dir)].some((entry) => entry.name === name);
}
