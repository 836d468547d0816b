/** Folders of machines that are started ahead (docs/concepts/templates.md). */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { home as homeOf } from "../../../lib/base/home/mod.ts";
import {
  makeSpareFiles,
  removeLeftSpares,
  spareScratchGb,
  unmarkSpare,
} from "../../../lib/service/vm/vm_files.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";

const IDS = ["0c5b6c1e-58f4-4a2b-9a0e-3f4f5f6a7b8c", "1c5b6c1e-58f4-4a2b-9a0e-3f4f5f6a7b8c"];

Deno.test("a service removes the folders of machines that another one started ahead, and no VM's", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-" });
  try {
    const home = homeOf(new Map([["SBX_HOME", dir]]));
    const [spare, vm] = IDS.map((id) => sessionPaths(home, id));
    await Deno.mkdir(home.sessionsDir);
    for (const id of IDS) await makeSpareFiles(home, id, 0);
    assertEquals([await spareScratchGb(spare), await spareScratchGb(vm)], [0, 0]);
    assertEquals((await Deno.stat(spare.workspace)).mode! & 0o777, 0o755);
    assertEquals((await Deno.stat(spare.dir)).mode! & 0o777, 0o700);
    // Killed between the record and the mark: it is a VM.
    await Deno.writeTextFile(vm.record, "{}");
    await Deno.mkdir(join(home.sessionsDir, ".spare-unfinished"));
    await Deno.mkdir(join(home.sessionsDir, crypto.randomUUID()));
    await removeLeftSpares(home);
    const left = Array.from(Deno.readDirSync(home.sessionsDir), ({ name }) => name);
    assertEquals([left.length, left.includes(IDS[0]), left.includes(IDS[1])], [2, false, true]);
    await unmarkSpare(vm);
    assertEquals(await spareScratchGb(vm), undefined);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a disk that cannot be made leaves no folder", async () => {
  const dir = await Deno.makeTempDir({ prefix: "sbx-" });
  try {
    const home = homeOf(new Map([["SBX_HOME", dir]]));
    await Deno.mkdir(home.sessionsDir);
    await assertRejects(() => makeSpareFiles(home, IDS[0], 10 ** 9));
    assertEquals([...Deno.readDirSync(home.sessionsDir)], []);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
