/** Earlier states of repositories in a guest. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { History, Room } from "../../../lib/repo/mod.ts";
import { STATE_LIMITS, UNDO_LIMITS } from "../../../lib/repo/limit.ts";
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
  assertEquals([to.number, to.reason, before?.number], [1, "before a turn", 2]);
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

Deno.test("work that is too large to keep is not lost by an undo, unless that is asked for", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  await history(world).keep("before a turn");
  const first = await state(world);
  await sh(world.inside, "head -c 300000 /dev/urandom >large; git add -A; git commit -qm large; echo 2 >a");
  const large = await state(world);
  const narrow = { ...UNDO_LIMITS, bytes: 200_000 };
  const error = await assertRejects(() => history(world).undo({}, narrow), SbxError);
  assertEquals(error.code, "repo.too_large");
  assertStringIncludes(error.hint!, "sbx undo demo --discard");
  assertEquals(await state(world), large, "nothing was changed");
  assertEquals((await history(world).list()).length, 1);
  // Of an undo the limit is the one of all states, not of what a pull keeps beside its work.
  assert(UNDO_LIMITS.bytes > STATE_LIMITS.bytes);
  const { to, before, changed } = await history(world).discard();
  assertEquals([to.number, before, changed], [1, undefined, true]);
  assertEquals(await state(world), first);
  await sh(world.inside, "echo 3 >a");
  await history(world).keep("before a pull");
  assertEquals((await history(world).discard({ number: 1 })).to.number, 1);
  assertEquals(await state(world), first);
  const { number, reason } = (await history(world).list()).at(-1)!;
  assertEquals([number, reason], [3, "back at 1"]);
  const none = await assertRejects(() => history(world).discard({ number: 9 }), SbxError);
  assertEquals(none.code, "repo.no_state");
});

Deno.test("a state is put into a copy of the VM, and the states of the VM stay as they are", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  await sh(world.inside, "echo 2 >a");
  const first = await state(world);
  await history(world).keep("before a turn");
  await sh(world.inside, "echo 3 >a; git commit -qam three");
  const states = await history(world).list();
  const copy = Object.assign(Object.create(world.guest), { name: "copy" });
  await history(world).putInto(copy, 1);
  assertEquals(await state(world), first, "the copy's folder is this one here");
  assertEquals(await history(world).list(), states);
  const error = await assertRejects(() => history(world).putInto(copy, 7), SbxError);
  assertEquals(error.code, "repo.no_state");
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
  // A pack that breaks off leaves nothing of it on the disk, and neither does
  // one of a program that was killed.
  const store = `${world.room}/undo/0.git`;
  await sh(store, "mkdir -p incoming/pack; touch incoming/pack/tmp_pack_x");
  const before = await sh(store, "ls objects/pack");
  const head = `# v2 git bundle\n${id} refs/sbx/out\n\nPACK\0\0\0\x02\0\0\0\x09`;
  const guest = new HostileGuest(id, bytesOf(new TextEncoder().encode(head)));
  await assertRejects(() => new History(guest, world.room).keep("x"), SbxError);
  assertEquals(await sh(store, "ls objects/pack; test ! -e incoming"), before);
  assertEquals(await history(world).list(), states);
});

Deno.test("states of turns have their own number, and push out none that a person's commands kept", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  await sh(world.inside, "echo mine >a");
  await history(world).keep("before sbx pull");
  const began = Date.now() - 5000;
  for (let at = 0; at < 23; at++) {
    await sh(world.inside, `echo ${at} >a`);
    await history(world).keepTurn(began + at);
  }
  assertEquals(await history(world).keepTurn(began), undefined);
  const states = await history(world).list();
  assertEquals(states.map(({ number }) => number), [1, ...Array.from({ length: 20 }, (_, at) => at + 5)]);
  assertEquals([states[0].turn, states[1].turn, states[1].at_unix_ms], [undefined, true, began + 3]);
  assertEquals((await history(world).undo({ before_unix_ms: began + 10 })).to.number, 12);
  assertEquals(await Deno.readTextFile(`${world.inside}/a`), "10\n");
  // Another program takes work: the turn goes on without a state.
  using _lock = await new Room(world.room).lock();
  await sh(world.inside, "echo more >a");
  assertEquals(
    (await assertRejects(() => history(world).keepTurn(Date.now()), SbxError)).code,
    "repo.busy",
  );
});

Deno.test("states go after 30 days, but for the newest, and their objects with them", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  const path = `${world.room}/undo/states.json`;
  for (const text of ["old", "newer", "newest"]) {
    await sh(world.inside, `echo ${text} >a`);
    await history(world).keep(text);
    const record = JSON.parse(await Deno.readTextFile(path));
    for (const state of record.states) state.at_unix_ms = Date.now() - 31 * 24 * 3600 * 1000;
    await Deno.writeTextFile(path, JSON.stringify(record));
    assertEquals((await history(world).list()).map(({ reason }) => reason), [text]);
  }
  const refs = await git(`${world.room}/undo/0.git`, "for-each-ref", "--format=%(refname)");
  assertEquals(refs, "refs/sbx/state/3");
});

Deno.test("an undo to a state that is there changes nothing and keeps nothing", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  await history(world).keep("before sbx pull");
  await sh(world.inside, "echo 2 >a");
  assertEquals((await history(world).undo({ number: 1 })).changed, true);
  const states = await history(world).list();
  assertEquals((await history(world).undo({ number: 1 })).changed, false);
  assertEquals(await history(world).list(), states);
});

Deno.test("states are repacked only where there is no room for one more", async () => {
  await using world = await World.ofRepository("echo 1 >a");
  const packs = async () =>
    (await sh(`${world.room}/undo/0.git`, "ls objects/pack/*.pack")).trim().split("\n").length;
  for (const text of ["one", "two", "three"]) {
    await sh(world.inside, `head -c 100000 /dev/urandom >a; echo ${text} >b`);
    await history(world).keep(text);
  }
  const before = await packs();
  await sh(world.inside, "echo 4 >a");
  await history(world).undo();
  assertEquals(await packs(), before + 1);
  // The first state is removed for its age: a repack leaves its file out.
  const path = `${world.room}/undo/states.json`;
  const record = JSON.parse(await Deno.readTextFile(path));
  record.states[0].at_unix_ms = 0;
  await Deno.writeTextFile(path, JSON.stringify(record));
  await sh(world.inside, "head -c 100000 /dev/urandom >a");
  await history(world).keep("four");
  await sh(world.inside, "head -c 50000 /dev/urandom >a");
  const limits = { ...UNDO_LIMITS, all: 400_000 };
  assertEquals((await history(world).undo({}, limits)).before?.reason, "before an undo");
  assertEquals(await packs(), 2);
  // Without such objects there is no room, and nothing is changed.
  await sh(world.inside, "head -c 200000 /dev/urandom >a");
  const now = await state(world);
  const error = await assertRejects(() => history(world).undo({}, limits), SbxError);
  assertEquals([error.code, await state(world)], ["repo.too_large", now]);
});
