/** Earlier states of repositories in a guest. */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { History } from "../../../lib/repo/mod.ts";
import { git, listing, sh, World } from "../../helper/repository.ts";
import { bytesOf, HostileGuest } from "../../helper/hostile_guest.ts";

const history = (world: World) => new History(world.guest, world.room);
const state = async (world: World) => [
  await listing(world.inside),
  await git(world.inside, "rev-parse", "HEAD"),
  await git(world.inside, "symbolic-ref", "HEAD"),
];

Deno.test("files, commits and branch go back, and an undo is undone by the next", async () => {
  await using world = await World.ofRepository(
    "echo 1 >a; echo 1 >gone; echo ignored >.gitignore; ln -s /etc/hosts out",
  );
  await sh(world.inside, "echo 2 >a; echo draft >draft; echo keep >ignored");
  const first = await state(world);
  assertEquals((await history(world).keep("before a turn"))!.number, 1);
  assertEquals(await history(world).keep("before a turn"), undefined);
  await sh(
    world.inside,
    "git checkout -q -b other; git rm -q gone; git commit -qam more; echo new >new; rm draft; mkdir a.d",
  );
  const second = await state(world);
  const { to, before } = await history(world).undo();
  assertEquals([to.number, to.reason, before.number], [1, "before a turn", 2]);
  assertEquals(await state(world), first);
  assertEquals(await Deno.readTextFile(`${world.inside}/ignored`), "keep\n");
  await history(world).undo();
  assertEquals(await state(world), second);
  await history(world).undo();
  assertEquals(await state(world), first);
  await history(world).undo();
  await history(world).undo({ number: 1 });
  assertEquals(await state(world), first);
  assertEquals(
    (await assertRejects(() => history(world).undo({ number: 9 }), SbxError)).code,
    "repo.no_state",
  );
});

Deno.test("a state is there when the guest has removed its refs, its objects or the repository itself", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  await sh(world.inside, "echo 2 >a; git commit -qam two; echo 3 >a");
  const first = await state(world);
  await history(world).keep("before a turn");
  await sh(
    world.inside,
    "git reset -q --hard HEAD^; git update-ref -d refs/sbx/out; git reflog expire --expire=now --all; git gc -q --prune=now",
  );
  await history(world).undo();
  assertEquals(await state(world), first);
  await sh(world.inside, "rm -rf .git; git init -q -b main; echo x >a; git add a; git commit -qm x");
  await history(world).undo({ number: 1 });
  assertEquals(await state(world), first);
  await sh(world.inside, "rm -rf .git * .[a-z]*; rmdir ../project");
  await history(world).undo();
  assertEquals(await state(world), first);
});

Deno.test("a folder without a repository goes back too, and what was brought in later stays", async () => {
  await using world = await World.make();
  await sh(world.person, "mkdir d; echo 1 >d/f; echo 1 >g");
  await world.bring();
  const first = await listing(world.inside);
  await history(world).keep("before a pull");
  await sh(world.inside, "rm -r d; echo 2 >g; echo 3 >h");
  await history(world).undo();
  assertEquals(await listing(world.inside), first);
});

Deno.test("states are limited in number, and a guest that lies about one leaves none", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  for (let at = 0; at < 22; at++) {
    await sh(world.inside, `echo ${at} >a`);
    await history(world).keep("before a turn");
  }
  const states = await history(world).list();
  assertEquals([states.length, states[0].number, states.at(-1)!.number], [20, 3, 22]);
  const refs = await git(`${world.room}/undo/0.git`, "for-each-ref", "--format=%(refname)", "refs/sbx/state");
  assertEquals(refs.split("\n").length, 20);
  const id = "a".repeat(40);
  for (const answer of [`${id} ${id} -\n`, `${id} ${id}\n`, "no\n", `${id} --all\n`]) {
    const guest = new HostileGuest(id, bytesOf(new Uint8Array(9)), answer);
    const { code } = await assertRejects(() => new History(guest, world.room).keep("x"), SbxError);
    assertEquals(code, "repo.refused", answer);
  }
  // A pack that breaks off leaves nothing of it on the disk.
  const packs = `${world.room}/undo/0.git/objects/pack`;
  const head = `# v2 git bundle\n${id} refs/sbx/out\n\nPACK\0\0\0\x02\0\0\0\x09`;
  const guest = new HostileGuest(id, bytesOf(new TextEncoder().encode(head)));
  await assertRejects(() => new History(guest, world.room).keep("x"), SbxError);
  assertEquals(
    (await Array.fromAsync(Deno.readDir(packs))).filter(({ name }) => name.startsWith("tmp_")),
    [],
  );
  assertEquals(await history(world).list(), states);
});
