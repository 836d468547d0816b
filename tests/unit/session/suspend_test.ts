/** The memory of a suspended VM on the disk. */
import { assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { discard, discardUnfinished, isSuspended } from "../../../lib/session/suspend.ts";

Deno.test("memory is there or not: a removal that is cut off leaves none that cannot be taken up", async () => {
  const dir = await Deno.makeTempDir();
  const place = { suspended: join(dir, "suspended") };
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

function existsIn(dir: string, name: string): boolean {
  return [...Deno.readDirSync(dir)].some((entry) => entry.name === name);
}
