/** The log of a store: machines in it, and states that machines keep as witnesses. */
import { assert, assertEquals, assertMatch, assertNotEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import {
  isConsistent,
  openHead,
  readWitness,
  StoreLog,
  Tree,
  witnessPath,
} from "../../../lib/fleet/log/mod.ts";
import { FleetMachine, fleetPaths, openTarget } from "../../../lib/fleet/machine/mod.ts";
import { checkFleet, endMachine, findMachine } from "../../../lib/fleet/receive/mod.ts";
import { HttpTarget } from "../../../lib/fleet/ship/mod.ts";
import type { SigningKey } from "../../../lib/release/mod.ts";
import { newKey, TestFleet } from "../../helper/fleet.ts";

Deno.test("each state of a tree is proved to be the beginning of each later one, and no other is", () => {
  const trees = Array.from({ length: 18 }, (_, size) => {
    const tree = new Tree();
    for (let at = 0; at < size; at++) tree.push(`entry ${at}`);
    return tree;
  });
  const last = trees.at(-1)!;
  const other = new Tree();
  for (let at = 0; at < last.size; at++) other.push(at === 4 ? "changed" : `entry ${at}`);
  for (let size = 1; size <= last.size; size++) {
    assertEquals(last.root(size), trees[size].root());
    for (let before = 1; before <= size; before++) {
      const [one, two] = [trees[before], trees[size]].map((tree) => ({ size: tree.size, root: tree.root() }));
      const proof = trees[size].proof(before);
      assert(isConsistent(one, two, proof), `${before} of ${size}`);
      assert(proof.length <= 2 * Math.ceil(Math.log2(size + 1)));
      assert(!isConsistent({ ...one, root: other.root(17) }, two, proof));
      for (let at = 0; at < proof.length; at++) {
        assert(!isConsistent(one, two, proof.with(at, one.root === proof[at] ? two.root : one.root)));
        assert(!isConsistent(one, two, proof.toSpliced(at, 1)));
      }
      if (before < size) assert(!isConsistent(two, one, proof));
      assert(!isConsistent(one, two, [...proof, two.root]));
    }
  }
  for (let before = 5; before < 17; before++) {
    const [one, two] = [{ size: before, root: last.root(before) }, { size: 17, root: other.root() }];
    assert(!isConsistent(one, two, other.proof(before)));
  }
});

Deno.test("the tree of an empty log, and of one entry, are known answers", () => {
  const tree = new Tree();
  // BLAKE3 of nothing, and of a zero byte before the text.
  assertEquals(tree.root(), "af1349b9f5f9a1a6a0404dea36dcc9499bcb25c9adc112b7cc9a93cae41f3262");
  tree.push("");
  assertEquals(tree.root(), "2d3adedff11b61f14c886e35afa036736dcd87a74d27b5c1510225d0f592e213");
});

function home(fleet: TestFleet, key: SigningKey, url = fleet.url): Promise<FleetMachine> {
  return FleetMachine.open({
    home: { dir: `${fleet.dir}/home-${key.publicKey.id.slice(0, 8)}` },
    key,
    target: openTarget(url, key),
    version: "1.2.3",
    isRunning: () => false,
  });
}

const folderOf = (fleet: TestFleet, key: SigningKey) =>
  fleetPaths({ dir: `${fleet.dir}/home-${key.publicKey.id.slice(0, 8)}` }).folder;

Deno.test("machines and their ends are in the log, and machines keep its state", async () => {
  await using fleet = await TestFleet.start();
  const [one, two] = [await fleet.machine("laptop-1"), await fleet.machine("laptop-2")];
  assertEquals(await (await home(fleet, one)).round(), undefined);
  assertEquals((await readWitness(folderOf(fleet, one)))!.size, 2);
  await endMachine(fleet.store, (await findMachine(fleet.store, two.publicKey.id))!, {
    kind: "retired",
    by: "ann",
  });
  const machine = await home(fleet, one);
  assertEquals(await machine.round(), undefined);
  assertEquals(machine.status.witness?.problem, undefined);
  const witness = (await readWitness(folderOf(fleet, one)))!;
  assertEquals([witness.size, witness.problem, machine.status.witness?.size], [3, undefined, 3]);
  const check = await checkFleet(fleet.store);
  assertEquals([check.ok, check.log], [true, { size: 3, root: witness.root }]);
});

Deno.test("a machine that is taken out of a store is named, by the log and by machines that saw it", async () => {
  await using fleet = await TestFleet.start();
  const [one, two] = [await fleet.machine("laptop-1"), await fleet.machine("laptop-2")];
  assertEquals(await (await home(fleet, one)).round(), undefined);
  const entries = `${fleet.store}/log/entries.jsonl`;
  const text = await Deno.readTextFile(entries);
  const [first] = text.split("\n");

  await Deno.remove(`${fleet.store}/machines/${two.publicKey.id}.json`);
  const out = await checkFleet(fleet.store);
  assertEquals(out.ok, false);
  assertMatch(out.problems[0], new RegExp(`^machine ${two.publicKey.id} was taken out: entry 2`));

  // Its entry too, by who has the store's key: the report of the other machine has another state.
  await Deno.writeTextFile(entries, `${first}\n`);
  const shorter = await checkFleet(fleet.store);
  assertEquals([shorter.ok, shorter.problems], [false, []]);
  assertMatch(shorter.machines[0].problems[0], /this machine saw 2 entries, and there are 1/);

  // The report as well: the machine notices it. A new receiver knows no more than the store.
  const other = `${fleet.dir}/rewritten`;
  await Deno.mkdir(`${other}/machines`, { recursive: true });
  await Deno.mkdir(`${other}/log`);
  await Deno.copyFile(
    `${fleet.store}/machines/${one.publicKey.id}.json`,
    `${other}/machines/${one.publicKey.id}.json`,
  );
  await Deno.mkdir(`${other}/log/attest`);
  for (const name of ["machine-key.json", "machine-key.pem"]) {
    await Deno.copyFile(`${fleet.store}/log/attest/${name}`, `${other}/log/attest/${name}`);
  }
  await Deno.copyFile(entries, `${other}/log/entries.jsonl`);
  const seen = (await readWitness(folderOf(fleet, one)))!;
  const rewritten = StoreLog.of(other);
  const machine = await FleetMachine.open({
    home: { dir: `${fleet.dir}/home-${one.publicKey.id.slice(0, 8)}` },
    key: one,
    target: {
      name: seen.target,
      send: () => Promise.resolve({ kept: true }),
      report: () => Promise.resolve(),
      log: (state) => rewritten.signedAnswer(state),
    },
    version: "1.2.3",
    isRunning: () => false,
  });
  assertEquals(await machine.round(), undefined);
  assertEquals(machine.status.witness?.problem, "it had 2 entries, and has 1");
  // With as many entries as before.
  await rewritten.append({ kind: "ended", machine_id: one.publicKey.id, end: "retired" });
  const kept = JSON.parse(await Deno.readTextFile(witnessPath(folderOf(fleet, one))));
  delete kept.problem;
  await Deno.writeTextFile(witnessPath(folderOf(fleet, one)), JSON.stringify(kept));
  const again = await FleetMachine.open({
    home: { dir: `${fleet.dir}/home-${one.publicKey.id.slice(0, 8)}` },
    key: one,
    target: {
      name: seen.target,
      send: () => Promise.resolve({ kept: true }),
      report: () => Promise.resolve(),
      log: (state) => rewritten.signedAnswer(state),
    },
    version: "1.2.3",
    isRunning: () => false,
  });
  await again.round();
  assertMatch(again.status.witness!.problem!, /^its first 2 entries are not the ones that were seen/);
  const evidence = (await readWitness(folderOf(fleet, one)))!;
  assertEquals([evidence.size, evidence.root], [seen.size, seen.root]);
  assertNotEquals(evidence.problem!.head, evidence.head);
});

Deno.test("only the head that a store signed is taken for its state, and a refusal says what to do", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const log = StoreLog.of(`${dir}/store`);
    await log.append({ kind: "ended", machine_id: "a".repeat(64), end: "retired" });
    const { size, root, signed } = await log.signedAnswer({ size: 0, root: "" });
    const { head, key } = signed!;
    const opened = await openHead(head, key);
    assertEquals([opened.size, opened.root], [size, root]);
    const { key: other } = (await StoreLog.of(`${dir}/other`).signedAnswer({ size: 0, root: "" })).signed!;
    const [entry] = (await Deno.readTextFile(`${dir}/store/log/entries.jsonl`)).split(/(?<=\n)/);
    const cases = {
      "another key": [head, other],
      "no envelope": ["{}", key],
      "an entry": [entry, key],
    } as const;
    for (const [name, [envelope, by]] of Object.entries(cases)) {
      const { code, hint } = await assertRejects(() => openHead(envelope, by), SbxError, undefined, name);
      assertEquals([code, hint], [
        "fleet.log.invalid",
        "an administrator checks the store: sbx-admin fleet verify DIR",
      ]);
    }
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});

Deno.test("a file that was put in, changed or removed beside the log is named", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine("laptop-1");
  const path = `${fleet.store}/machines/${key.publicKey.id}.json`;
  const machine = JSON.parse(await Deno.readTextFile(path));
  await Deno.writeTextFile(path, JSON.stringify({ ...machine, team: "other" }));
  assertMatch((await checkFleet(fleet.store)).problems[0], /was changed after entry 1/);
  await Deno.writeTextFile(path, JSON.stringify(machine));

  const stranger = (await newKey()).publicKey.id;
  const put = `${fleet.store}/machines/${stranger}.json`;
  await Deno.writeTextFile(put, JSON.stringify({ ...machine, machine_id: stranger }));
  assertMatch((await checkFleet(fleet.store)).problems[0], new RegExp(`${stranger} was put in`));
  await Deno.remove(put);

  await endMachine(fleet.store, (await findMachine(fleet.store, key.publicKey.id))!, {
    kind: "revoked",
    by: "ann",
  });
  await Deno.remove(`${fleet.store}/machines/${key.publicKey.id}.ended.json`);
  assertMatch((await checkFleet(fleet.store)).problems[0], /was taken back: it was revoked/);

  const entries = `${fleet.store}/log/entries.jsonl`;
  const text = await Deno.readTextFile(entries);
  const forged = text.replace(/"payload":"(.)/, '"payload":"A');
  await Deno.writeTextFile(entries, forged);
  assertMatch((await checkFleet(fleet.store)).problems[0], /^line 1 is not the entry/);
});

Deno.test("a store from before the log gets its machines into it with the next one", async () => {
  await using fleet = await TestFleet.start();
  const one = await fleet.machine("laptop-1");
  await Deno.remove(`${fleet.store}/log`, { recursive: true });
  // Another folder name: this program has read the log of the first.
  const store = `${fleet.dir}/moved`;
  await Deno.rename(fleet.store, store);
  await using _back = { [Symbol.asyncDispose]: () => Deno.rename(store, fleet.store) };
  assertEquals((await checkFleet(store)).problems, []);
  const answer = await new Promise<number>((resolve, reject) =>
    endMachine(store, { ...machineOf(one), name: "laptop-1" }, { kind: "retired", by: "ann" })
      .then(() => StoreLog.of(store).answer({ size: 0, root: "0".repeat(64) }))
      .then(({ size }) => resolve(size), reject)
  );
  assertEquals(answer, 2);
});

function machineOf(key: SigningKey) {
  return {
    schema: "sbx.fleet-machine.v1" as const,
    machine_id: key.publicKey.id,
    public_key: "",
    enrolled_at: new Date().toISOString(),
  };
}

Deno.test("only an enrolled machine reads the state, and a collector that hides its log is named", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine("laptop-1");
  const none = { size: 0, root: "0".repeat(64) };
  const stranger = new HttpTarget(fleet.url, await newKey());
  assertEquals((await assertRejects(() => stranger.log(none), SbxError)).code, "fleet.denied");
  const target = new HttpTarget(fleet.url, key);
  assertEquals((await target.log(none))!.size, 1);
  assertEquals(
    (await assertRejects(() => target.log({ size: 1, root: "x" }), SbxError)).code,
    "fleet.refused",
  );
  // Another state of as many entries gets no proof.
  assertEquals((await target.log({ size: 1, root: "1".repeat(64) }))!.proof, undefined);

  await (await home(fleet, key)).round();
  const machine = await FleetMachine.open({
    home: { dir: `${fleet.dir}/home-${key.publicKey.id.slice(0, 8)}` },
    key,
    target: {
      name: target.name,
      send: (segment) => target.send(segment),
      report: (envelope) => target.report(envelope),
      log: () => Promise.resolve(undefined),
    },
    version: "1.2.3",
    isRunning: () => false,
  });
  assertEquals(await machine.round(), undefined);
  assertMatch(machine.status.witness!.problem!, /shows no log any more/);
});
