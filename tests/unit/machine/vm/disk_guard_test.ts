/** A guest that fills the disk of its host is slowed, and stopped before the disk is full. */
import { assert, assertEquals } from "@std/assert";
import {
  type DiskLook,
  guardDisk,
  leastFree,
  lookAtDisk,
  writeLimit,
} from "../../../../lib/machine/vm/disk_guard.ts";

const MIB = 1024 * 1024;
const GIB = 1024 * MIB;

/** Guards a machine that finds the given states of its disk, one a look. */
async function guarded(looks: DiskLook[]): Promise<{ limits: number[]; stops: number }> {
  const limits: number[] = [];
  let stops = 0;
  const left = [...looks];
  // Its delays keep no process alive.
  const alive = setInterval(() => {}, 1000);
  await guardDisk({
    look: () => Promise.resolve(left.shift()!),
    limitWrites: (limit) => Promise.resolve(void limits.push(limit)),
    stop: () => void stops++,
    get isOver() {
      return left.length === 0;
    },
  }).finally(() => clearInterval(alive));
  return { limits, stops };
}

const look = (free: number, taken: number, size = 100 * GIB): DiskLook => ({ size, free, taken });

Deno.test("with room, a guest is neither slowed nor stopped", async () => {
  assertEquals(await guarded([look(GIB, 0), look(GIB - MIB, MIB)]), { limits: [], stops: 0 });
});

Deno.test("little room slows writes, less room more; room again lifts the limit", async () => {
  const { limits, stops } = await guarded([
    look(500 * MIB, 0),
    look(480 * MIB, 20 * MIB),
    look(200 * MIB, 300 * MIB),
    look(13 * MIB, 487 * MIB),
    look(GIB, 0),
  ]);
  assertEquals(limits, [488 * MIB, 188 * MIB, MIB, 0]);
  assertEquals(stops, 0);
});

Deno.test("a guest that takes the last of the room is stopped; one that takes none runs on", async () => {
  assertEquals((await guarded([look(14 * MIB, 0), look(11 * MIB, 3 * MIB)])).stops, 1);
  assertEquals((await guarded([look(14 * MIB, 0), look(0, 0), look(0, 0)])).stops, 0);
  // A machine that begins on a full disk has taken nothing yet.
  assertEquals((await guarded([look(0, 5 * MIB)])).stops, 0);
});

Deno.test("a small disk keeps an eighth, and no guest fills the rest of a disk within a second", () => {
  assertEquals([leastFree(100 * GIB), leastFree(24 * MIB)], [12 * MIB, 3 * MIB]);
  assertEquals([writeLimit(GIB), writeLimit(100 * MIB), writeLimit(10), writeLimit(-5)], [
    0,
    100 * MIB,
    MIB,
    MIB,
  ]);
});

Deno.test("a look finds the room of the file system and what the image takes of it", async () => {
  const path = await Deno.makeTempFile();
  try {
    const before = await lookAtDisk(path);
    await Deno.writeFile(path, crypto.getRandomValues(new Uint8Array(60_000)));
    await Deno.truncate(path, 10 * MIB);
    const after = await lookAtDisk(path);
    assert(after.size > 0 && after.free <= after.size);
    assert(after.taken - before.taken >= 57_344 && after.taken < MIB, `${after.taken}`);
  } finally {
    await Deno.remove(path);
  }
});
