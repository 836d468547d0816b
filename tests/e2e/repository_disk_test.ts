/**
 * Disks that fill in the middle of a repository's way in or back: an error,
 * nothing half-written, nothing lost.
 */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { pullWork } from "../../lib/repo/mod.ts";
import { everything } from "../helper/hostile_guest.ts";
import { listing, sh, World } from "../helper/repository.ts";

// Mounting needs root.
const options = { ignore: Deno.uid() !== 0 };

/** Runs with a small disk at a folder of a world; what was there is on it. */
async function withDisk(
  world: World,
  name: string,
  megabytes: number,
  run: () => Promise<void>,
): Promise<void> {
  const dir = `${world.dir}/${name}`;
  await sh(
    world.dir,
    `mv ${name} ${name}.old; mkdir ${name}; mount -t tmpfs -o size=${megabytes}m disk ${name}; cp -a ${name}.old/. ${name}/`,
  );
  try {
    await run();
  } finally {
    await sh("/", `umount ${dir}`);
  }
}

async function failedPull(world: World): Promise<string> {
  await using work = await world.collect();
  return (await assertRejects(() => pullWork(work))).message;
}

Deno.test("a pull that fills the disk of the repository leaves it as it was", options, async () => {
  await using world = await World.ofRepository();
  await withDisk(world, "person", 8, async () => {
    await sh(world.inside, "head -c 20000000 /dev/urandom >big; echo two >a.txt");
    const before = await everything(world.person);
    await failedPull(world);
    assertEquals(await everything(world.person), before);
    await sh(world.inside, "rm big");
    await using work = await world.collect();
    assertEquals((await pullWork(work)).branches[0].branch, "sbx/demo");
  });
});

Deno.test("a pull that fills the disk of a folder leaves every file as it was", options, async () => {
  await using world = await World.make();
  await sh(world.person, "for i in 1 2 3; do echo $i >$i; done");
  await world.bring();
  await withDisk(world, "person", 8, async () => {
    await sh(world.inside, "echo x >1; head -c 20000000 /dev/urandom >2; rm 3");
    const before = await listing(world.person);
    await failedPull(world);
    assertEquals(await listing(world.person), before);
    assertEquals(await sh(world.person, "ls -A"), "1\n2\n3\n");
  });
});

Deno.test("a pull that fills the disk of sbx leaves repository and room as they were", options, async () => {
  await using world = await World.ofRepository();
  await withDisk(world, "room", 8, async () => {
    await sh(world.inside, "head -c 20000000 /dev/urandom >big");
    const before = await everything(world.person);
    await assertRejects(() => world.collect(), SbxError);
    assertEquals(await everything(world.person), before);
    assertEquals(await sh(world.room, "ls"), "0.git\nrecord.json\n");
  });
});

Deno.test(
  "a push that fills the disk of the guest leaves nothing there, and can be made again",
  options,
  async () => {
    await using world = await World.make();
    await sh(world.person, "git init -q; head -c 20000000 /dev/urandom >big; git add .; git commit -qm big");
    for (const disk of ["workspace", "guest"]) {
      await withDisk(world, disk, 16, async () => {
        const before = await everything(world.person);
        await assertRejects(() => world.bring());
        assertEquals(await everything(world.person), before);
        assertEquals(await sh(world.dir, "ls -A guest workspace"), "guest:\n\nworkspace:\n");
      });
      await sh(world.dir, `rmdir ${disk}; mv ${disk}.old ${disk}`);
    }
    await world.bring();
    assertEquals(await listing(world.inside), await listing(world.person));
  },
);
