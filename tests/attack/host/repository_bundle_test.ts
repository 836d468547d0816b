/** Bundles and packs that lie about what they hold, or hold more than a host can take. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { basename } from "node:path";
import { createHash } from "node:crypto";
import { constants, deflateRawSync, deflateSync } from "node:zlib";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  BUNDLE_MAX,
  FILES_MAX,
  OBJECT_MAX,
  OBJECTS_MAX,
  type StateLimits,
  TURN_LIMITS,
} from "../../../lib/repo/limit.ts";
import { History } from "../../../lib/repo/mod.ts";
import { bytesOf, Forge, HostileGuest, type RawEntry, take, takeFrom } from "../../helper/hostile_guest.ts";
import { runChild } from "../../helper/child.ts";
import { git, sh, World } from "../../helper/repository.ts";

const encoder = new TextEncoder();
const text = (line: string) => encoder.encode(line);

/** A bundle's head with its pack. */
function bundle(head: string, pack: Uint8Array = new Uint8Array()): Uint8Array {
  return joinBytes([text(head), pack]);
}

/** Header of a pack, and of one object of a type and size. */
function pack(objects: number, ...rest: Uint8Array[]): Uint8Array {
  const header = new Uint8Array(12);
  header.set(text("PACK"));
  new DataView(header.buffer).setUint32(4, 2);
  new DataView(header.buffer).setUint32(8, objects);
  return joinBytes([header, ...rest]);
}

/** A zlib stream of zeros: blocks of a mebibyte that refer to nothing before them, over and over. */
function deflatedZeros(count: number): Uint8Array {
  const MIB = 1 << 20;
  const block = deflateRawSync(new Uint8Array(MIB), { finishFlush: constants.Z_FULL_FLUSH });
  const adler = new Uint8Array(4);
  new DataView(adler.buffer).setUint32(0, (count % 65_521) * 0x1_0000 + 1);
  return joinBytes([
    Uint8Array.of(0x78, 0x01),
    ...Array.from({ length: Math.floor(count / MIB) }, () => block),
    deflateRawSync(new Uint8Array(count % MIB)),
    adler,
  ]);
}

function objectHead(type: number, size: bigint): Uint8Array {
  const bytes = [Number(size & 15n) | type << 4];
  for (size >>= 4n; size > 0n; size >>= 7n) {
    bytes[bytes.length - 1] |= 128;
    bytes.push(Number(size & 127n));
  }
  return new Uint8Array(bytes);
}

Deno.test("refs with other names, options as names, filters and formats make no bundle of work", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const tip = await forge.commit(await forge.tree([["100644", "a", await forge.blob("x")]]));
  const honest = await forge.bundle(tip);
  assertEquals(await take(world, tip, honest), undefined);
  await git(world.person, "branch", "-D", "sbx/demo");
  const refs = [
    "refs/heads/main",
    "HEAD",
    "--upload-pack=id",
    "refs/replace/" + tip,
    "refs/sbx/out\t",
    "../../config",
    "-x",
  ];
  const packed = honest.subarray(new TextDecoder("latin1").decode(honest).indexOf("\n\n") + 2);
  const heads = [
    ...refs.map((name) => `# v2 git bundle\n${tip} ${name}\n\n`),
    `# v2 git bundle\n${tip} refs/sbx/out\n${tip} refs/heads/main\n\n`,
    `# v2 git bundle\n\n`,
    `# v3 git bundle\n@object-format=sha256\n${tip} refs/sbx/out\n\n`,
    `# v3 git bundle\n@filter=blob:none\n${tip} refs/sbx/out\n\n`,
    `# v4 git bundle\n${tip} refs/sbx/out\n\n`,
    `# v2 git bundle\n${tip.slice(1)} refs/sbx/out\n\n`,
    `${tip} refs/sbx/out\n\n`,
    `# v2 git bundle\n${tip} refs/sbx/out\n`,
  ];
  for (const head of heads) assertEquals(await take(world, tip, bundle(head, packed)), "repo.refused", head);
  const long = `# v2 git bundle\n${`-${tip} x\n`.repeat(2000)}`;
  assertEquals(await take(world, tip, bundle(long)), "repo.too_large");
});

Deno.test("prerequisites that lie, grafts, shallow and replaced history leave no hole in the repository", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const tree = await forge.tree([["100644", "a", await forge.blob("x")]]);
  const hidden = await forge.commit(tree, undefined, "hidden");
  const tip = await forge.commit(tree, [hidden]);
  // The bundle says that the host has the commit in the middle.
  const lying = await forge.bundle(tip, [hidden]);
  assertEquals(await take(world, tip, lying), "repo.refused");
  await Deno.writeTextFile(`${world.inside}/.git/shallow`, `${tip}\n`);
  assertEquals(await take(world, tip, await forge.bundle(tip)), "repo.refused");
  await Deno.remove(`${world.inside}/.git/shallow`);
  const pack = `printf '%s\\n^%s\\n' ${tip} main | git pack-objects -q --revs --stdout`;
  const head = `# v2 git bundle\n${tip} refs/sbx/out\n\n`;
  for (
    const [filter, code] of [[" --filter=blob:none", "repo.refused"], [" --filter=tree:0", "repo.refused"], [
      "",
      undefined,
    ]]
  ) {
    const path = `${world.dir}/filtered.pack`;
    await sh(world.inside, `${pack}${filter} >${path}`);
    assertEquals(await take(world, tip, bundle(head, await Deno.readFile(path))), code, filter);
  }
});

Deno.test("a ref that is a tree, a blob, or an object that the guest does not send is refused", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const tree = await forge.tree([["100644", "a", await forge.blob("new")]]);
  const tip = await forge.commit(tree);
  const honest = new TextDecoder("latin1").decode(await forge.bundle(tip));
  for (const other of [tree, await forge.blob("new"), "3".repeat(40)]) {
    const forged = Uint8Array.from(
      honest.replace(`${tip} refs`, `${other} refs`),
      (char) => char.charCodeAt(0),
    );
    assertEquals(await take(world, other, forged), "repo.refused", other);
  }
  const secret = await git(world.person, "hash-object", "-w", "--stdin");
  for (
    const answer of [
      `${secret} ${secret} -\n`,
      `${"4".repeat(40)} ${"4".repeat(40)} -\n`,
      "-x -y -\n",
      "\x1b[2J",
      "",
    ]
  ) {
    assertEquals(await takeFrom(world, new HostileGuest(tip, bytesOf(), answer)), "repo.refused", answer);
  }
});

Deno.test("a pack that is cut off, changed or claims sizes and numbers it does not have is refused", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const tip = await forge.commit(await forge.tree([["100644", "a", await forge.blob("x".repeat(5000))]]));
  const honest = await forge.bundle(tip);
  const changed = honest.slice();
  changed[changed.length - 30] ^= 255;
  const head = `# v2 git bundle\n${tip} refs/sbx/out\n\n`;
  const zeros = deflateSync(new Uint8Array(100));
  const refused: [string, Uint8Array][] = [
    ["cut off", honest.subarray(0, honest.length - 20)],
    ["changed", changed],
    ["no pack", bundle(head, text("JUNKJUNKJUNK"))],
    ["size claim", bundle(head, pack(1, objectHead(3, 1n << 60n), zeros))],
    ["tree of a terabyte", bundle(head, pack(1, objectHead(2, 1n << 40n), zeros))],
    ["delta on itself", bundle(head, pack(1, objectHead(6, 100n), new Uint8Array([0]), zeros))],
    ["delta on nothing", bundle(head, pack(1, objectHead(7, 100n), new Uint8Array(20), zeros))],
  ];
  for (const [name, bytes] of refused) assertEquals(await take(world, tip, bytes), "repo.refused", name);
  assertEquals(await take(world, tip, bundle(head, pack(OBJECTS_MAX + 1))), "repo.too_large");
});

Deno.test("an endless bundle, and one that breaks off, leave nothing", async () => {
  await using world = await World.ofRepository();
  const tip = await git(world.inside, "rev-parse", "HEAD");
  const head = bundle(`# v2 git bundle\n${tip} refs/sbx/out\n\n`, pack(1, objectHead(3, 1n << 33n)));
  let sent = 0;
  const endless = async function* () {
    yield head;
    const chunk = new Uint8Array(1 << 20);
    for (; sent < BUNDLE_MAX * 2; sent += chunk.length) yield chunk;
  };
  assertEquals(await takeFrom(world, new HostileGuest(tip, endless())), "repo.refused");
  assert(sent < BUNDLE_MAX);
  const broken = async function* () {
    yield head;
    throw new Deno.errors.ConnectionReset("gone");
  };
  await takeFrom(world, new HostileGuest(tip, broken())).catch((error) =>
    assert(error instanceof Deno.errors.ConnectionReset)
  );
});

Deno.test("a tree of more files than a host takes, a bomb of trees and folders a thousand deep are refused", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const blob = await forge.blob("x");
  const wide = Array.from(
    { length: FILES_MAX + 1 },
    (_, at): RawEntry => ["100644", `f${String(at).padStart(7, "0")}`, blob],
  );
  assertEquals(await take(world, await forge.commit(await forge.tree(wide))), "repo.too_large");
  let bomb = await forge.tree([["100644", "f", blob]]);
  for (let level = 0; level < 10; level++) {
    bomb = await forge.tree(Array.from("abcdefghij", (name): RawEntry => ["40000", name, bomb]));
  }
  assertEquals(await take(world, await forge.commit(bomb)), "repo.too_large");
  let deep = await forge.tree([["100644", "f", blob]]);
  for (let level = 0; level < 200; level++) deep = await forge.tree([["40000", "d", deep]]);
  assertEquals(await take(world, await forge.commit(deep)), "repo.too_large");
});

/** Id of a blob of OBJECT_MAX + 1 zeros, which takes git 5 s to compute. */
const HUGE_ZEROS = "ffb5085bb8f3377c53772d72d1c581bb19b20a0d";

Deno.test("a file that inflates to more than its limit is refused", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const tree = await forge.tree([["100644", "huge", HUGE_ZEROS]]);
  const tip = await forge.commit(tree);
  const raw = async (type: string, id: string) =>
    (await runChild("git", { args: ["cat-file", type, id], cwd: world.inside })).stdout;
  const [treeBytes, commitBytes] = [await raw("tree", tree), await raw("commit", tip)];
  const body = pack(
    3,
    objectHead(3, BigInt(OBJECT_MAX + 1)),
    deflatedZeros(OBJECT_MAX + 1),
    objectHead(2, BigInt(treeBytes.length)),
    deflateSync(treeBytes),
    objectHead(1, BigInt(commitBytes.length)),
    deflateSync(commitBytes),
  );
  const packed = joinBytes([body, createHash("sha1").update(body).digest()]);
  assertEquals(
    await take(world, tip, bundle(`# v2 git bundle\n${tip} refs/sbx/out\n\n`, packed)),
    "repo.too_large",
  );
});

Deno.test("a state for undo that inflates beyond its limit leaves nothing, however small it comes", async () => {
  await using world = await World.ofRepository();
  await sh(world.inside, "head -c 48M /dev/zero >zeros; git add -A; git commit -qm bomb");
  const tip = await git(world.inside, "rev-parse", "HEAD");
  const bytes = await Forge.of(world).bundle(tip, [await git(world.inside, "rev-parse", "HEAD^")]);
  assert(bytes.length < 1024 ** 2, "it comes small");
  const keep = (limits: Partial<StateLimits>) =>
    new History(new HostileGuest(tip, bytesOf(bytes)), world.room).keepTurn(0, { ...TURN_LIMITS, ...limits });
  for (const limits of [{ inflated: 32 * 1024 ** 2 }, { bytes: 1024 }]) {
    assertEquals((await assertRejects(() => keep(limits), SbxError)).code, "repo.too_large");
    const left = await sh(`${world.room}/undo/0.git`, "find objects incoming -type f -name '*pack*' || :");
    assertEquals(left, "");
  }
  assertEquals((await keep({}))!.number, 1);
});

Deno.test("a tree of more than 64 MiB makes no state for undo", async () => {
  await using world = await World.ofRepository();
  const forge = Forge.of(world);
  const blob = await forge.blob("x");
  const name = (at: number) => `${at}`.padStart(8, "0") + "n".repeat(240);
  const tree = await forge.tree(
    Array.from({ length: 250_000 }, (_, at): RawEntry => ["100644", name(at), blob]),
  );
  const tip = await forge.commit(tree);
  const guest = new HostileGuest(tip, bytesOf(await forge.bundle(tip)));
  const { code } = await assertRejects(() => new History(guest, world.room).keep("x"), SbxError);
  assertEquals(code, "repo.too_large");
});

Deno.test("work of a pull that was killed is removed by the next, but not that of one at work", async () => {
  await using world = await World.ofRepository();
  await sh(world.inside, "echo more >b");
  const incoming = () => sh(world.room, "ls -d incoming-* 2>/dev/null || :");
  {
    await using _work = await world.collect();
    const one = await incoming();
    {
      await using _other = await world.collect();
      assertEquals((await incoming()).split("\n").includes(one.trim()), true);
    }
    assertEquals(await incoming(), one);
  }
  await Deno.mkdir(`${world.room}/incoming-${crypto.randomUUID()}.git/objects`, { recursive: true });
  {
    await using work = await world.collect();
    assertEquals((await incoming()).trim(), work.temporary.map((path) => basename(path)).join());
  }
  assertEquals(await incoming(), "");
});
