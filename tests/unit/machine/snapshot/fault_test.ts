/** Full disks and kills: the store has every snapshot that was complete, and nothing else. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { join } from "node:path";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { SnapshotStore } from "../../../../lib/machine/snapshot/mod.ts";
import { limitChild, runChild } from "../../../helper/child.ts";
import { fromRoot } from "../../../helper/repo.ts";
import { listObjects, withSnapshots } from "../../../helper/snapshot.ts";

/** A file system of a few MB; needs root. */
async function withSmallDisk(megabytes: number, work: (base: string) => Promise<void>): Promise<void> {
  const base = await Deno.makeTempDir();
  const args = ["-t", "tmpfs", "-o", `size=${megabytes}m,mode=0700`, "sbx-test", base];
  if (!(await runChild("mount", { args })).success) throw new Error("mounting a tmpfs failed");
  try {
    await work(base);
  } finally {
    await runChild("umount", { args: [base] });
    await Deno.remove(base);
  }
}

const random = (bytes: number) => {
  const content = new Uint8Array(bytes);
  for (let at = 0; at < bytes; at += 65536) crypto.getRandomValues(content.subarray(at, at + 65536));
  return content;
};

Deno.test({
  name: "a snapshot that does not fit is refused before anything is written",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withSmallDisk(16, (base) =>
      withSnapshots(async ({ workspace, take, objects, store }) => {
        await Deno.writeFile(join(workspace, "big"), random(9e6));
        const error = await assertRejects(() => take(), SbxError);
        assertEquals([error.code, await objects(), await store.list()], ["disk.full", [], []]);
        assert(error.message.includes("8.6 MB") || error.message.includes("9.0 MB"), error.message);
      }, { base })),
});

Deno.test({
  name: "a disk that fills up meanwhile leaves the snapshots before, and nothing half-written",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withSmallDisk(
      16,
      (base) =>
        withSnapshots(async ({ workspace, dir, take, restore, limits, objects, sh }) => {
          await Deno.writeFile(join(workspace, "a"), random(1e6));
          const first = await take();
          for (const name of ["b", "c", "d"]) await Deno.writeFile(join(workspace, name), random(3e6));
          // One that takes the room for granted, as when another program takes it meanwhile.
          const careless = new SnapshotStore(dir, workspace, -1e12);
          const error = await assertRejects(() => careless.create({ kind: "manual", limits }), SbxError);
          assertEquals([error.code, (await objects()).length], ["disk.full", 1]);
          assertEquals((await careless.list()).map(({ id }) => id), [first]);
          await sh("rm a c d");
          assertEquals((await restore(first)).failed, []);
          assertEquals(await sh("ls"), "a\n");
        }, { base }),
    ),
});

Deno.test({
  name: "a restore on a full disk names what it did not put back, and keeps the file that is there",
  ignore: Deno.uid() !== 0,
  fn: () =>
    withSmallDisk(16, (base) =>
      withSnapshots(async ({ workspace, take, restore, sh }) => {
        await sh("echo old >small; mkdir d");
        await Deno.writeFile(join(workspace, "d/big"), random(4e6));
        const id = await take();
        await sh("echo new >small; echo stays >d/big");
        await take();
        await Deno.writeFile(join(base, "filler"), new Uint8Array(20e6)).catch(() => {});
        // Room for the small file and the manifest, not for the large one.
        await Deno.truncate(join(base, "filler"), (await Deno.stat(join(base, "filler"))).size - 1e6);
        const { failed } = await restore(id);
        assertEquals(failed, [{ path: "d/big", why: "no space left on the disk" }]);
        assertEquals(await sh("cat small d/big; ls -A d"), "old\nstays\nbig\n");
      }, { base })),
});

Deno.test("a store whose process is killed has every complete snapshot, whole", () =>
  withSnapshots(async ({ workspace, dir, store, restore, diff }) => {
    for (let round = 0; round < 6; round++) {
      const child = limitChild(
        new Deno.Command(Deno.execPath(), {
          args: [
            "run",
            "-A",
            "--quiet",
            "--no-check",
            "--config",
            fromRoot("deno.json"),
            fromRoot("tests/helper/snapshot_program.ts"),
            dir,
            workspace,
          ],
          stdout: "piped",
          stderr: "inherit",
        }).spawn(),
      );
      const reader = child.stdout.getReader();
      await reader.read();
      // Every other round has made one, however slow the machine is.
      if (round % 2 === 1) await reader.read();
      await new Promise((resolve) => setTimeout(resolve, 20 + 37 * round));
      child.kill("SIGKILL");
      await child.status;
      await reader.cancel();
    }
    const infos = await store.list();
    assert(infos.length > 0);
    for (const { id, files } of infos) {
      assertEquals((await restore(id)).failed, []);
      assertEquals([await diff(id), files <= 40], [[], true]);
    }
    await store.sweep();
    assertEquals((await listObjects(dir)).filter((name) => name.startsWith("tmp-")), []);
    for (const { id } of await store.list()) await store.remove(id);
    assertEquals(await listObjects(dir), []);
  }, { limits: { auto: 100, manual: 1 } }));

Deno.test("100,000 files are one snapshot", () =>
  withSnapshots(async ({ take, restore, sh, store }) => {
    await sh("for d in $(seq 100); do mkdir $d; cd $d; seq 1000 | xargs touch; cd ..; done");
    const id = await take();
    assertEquals((await store.list())[0].files, 100_000);
    await sh("rm -rf 7");
    assertEquals((await restore(id)).changes.length, 1001);
    assertEquals(await sh("ls 7 | wc -l"), "1000\n");
  }));
