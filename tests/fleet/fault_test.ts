/**
 * Many machines and receivers that are killed, on a network that loses, repeats and
 * reorders: nothing lost, nothing twice.
 */
import { assert, assertEquals } from "@std/assert";
import { SbxError } from "../../lib/base/error/mod.ts";
import { FleetMachine } from "../../lib/fleet/machine/mod.ts";
import { checkFleet, enrol, makeToken, readEnd } from "../../lib/fleet/receive/mod.ts";
import { HttpTarget, type SegmentTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { sessionFolder } from "../../lib/fleet/store.ts";
import { openRecords, writeTables } from "../../lib/fleet/table/mod.ts";
import { readHeads } from "../../lib/ledger/read/mod.ts";
import type { SigningKey } from "../../lib/release/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { newKey, record, SESSION_A, SESSION_B, webEvent } from "../helper/fleet.ts";
import { Random } from "../helper/random.ts";
import { ReceiverProcess } from "../helper/receiver_process.ts";

const SEED = Number(Deno.env.get("SEED") ?? 1);
const MACHINES = Number(Deno.env.get("MACHINES") ?? 60);

/** A network that loses requests and answers, and sends old segments again. */
function badNetwork(urls: () => string[], random: Random, key: SigningKey): SegmentTarget {
  const old: Uint8Array<ArrayBuffer>[] = [];
  const pick = () => new HttpTarget(random.pick(urls()), key);
  const lost = () => new SbxError("fleet.unavailable", "lost");
  return {
    name: "fleet",
    async send(segment) {
      if (random.below(6) === 0) throw lost();
      if (old.length > 0 && random.below(4) === 0) await pick().send(random.pick(old));
      const receipt = await pick().send(segment);
      old.push(segment);
      if (random.below(6) === 0) throw lost();
      return receipt;
    },
    report: (envelope) => pick().report(envelope),
  };
}

async function eventsIn(dir: string): Promise<number> {
  await writeTables(dir);
  await using over = await openRecords(`duckdb://${dir}`);
  const [row] = await over.engine.rows(
    `SELECT count(*) AS rows, count(DISTINCT (machine_id, session_id, sequence)) AS distinct_rows FROM ${
      over.table!("events")
    }`,
  );
  assertEquals(row.rows, row.distinct_rows, "a row is there twice");
  return Number(row.rows);
}

Deno.test(`${MACHINES} machines, two receivers that are killed, a bad network: every row once`, async () => {
  const dir = await Deno.makeTempDir();
  const store = `${dir}/store`;
  const random = new Random(SEED);
  const sessions = [SESSION_A, SESSION_B];
  for (const session of sessions) await record(`${dir}/${session}.db`, session, entries(session, 120));
  const receivers = [await new ReceiverProcess(store).ready(), await new ReceiverProcess(store).ready()];
  const keys: SigningKey[] = [];
  for (let at = 0; at < MACHINES; at++) {
    const key = await newKey();
    const { token } = await makeToken(store);
    await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: `machine-${at}` });
    keys.push(key);
  }
  let kills = 0;
  let done = false;
  const killing = (async () => {
    while (!done) {
      await new Promise((resolve) => setTimeout(resolve, 200 + random.below(600)));
      const at = random.below(2);
      await receivers[at].kill();
      kills++;
      receivers[at] = await new ReceiverProcess(store).ready();
    }
  })();
  const work = keys.map((key, number) => async () => {
    const target = badNetwork(() => receivers.map(({ url }) => url), new Random(SEED * 1000 + number), key);
    const cursors = `${dir}/cursors/${number}`;
    for (const session of sessions) {
      for (let isSent = false; !isSent;) {
        // Each attempt is a restarted machine.
        const shipper = new Shipper({ dir: cursors, key, target });
        isSent = await shipper.ship(session, `${dir}/${session}.db`).then(() => true, (error) => {
          assertEquals(error.code, "fleet.unavailable", error.message);
          return false;
        });
        if (!isSent) await new Promise((resolve) => setTimeout(resolve, 50));
      }
    }
  });
  await Promise.all(Array.from({ length: 20 }, async () => {
    for (let next = work.pop(); next; next = work.pop()) await next();
  }));
  done = true;
  await killing;
  for (const receiver of receivers) await receiver.kill();
  for (const session of sessions) {
    const heads = await readHeads(`${dir}/${session}.db`);
    for (const { publicKey } of keys) {
      assertEquals(await readEnd(sessionFolder(store, publicKey.id, session)), heads);
    }
  }
  const { machines } = await checkFleet(store);
  const bad = machines.flatMap(({ problems }) => problems.filter((line) => !line.startsWith("silent")));
  assertEquals(bad, []);
  assertEquals(await eventsIn(store), MACHINES * 2 * 120);
  assert(kills > 0);
  console.log(`  ${kills} kills`);
  await Deno.remove(dir, { recursive: true });
});

Deno.test({
  name: "a full disk of the receiver keeps nothing half, and the rows come later",
  ignore: Deno.uid() !== 0,
  async fn() {
    const dir = await Deno.makeTempDir();
    const store = `${dir}/store`;
    await Deno.mkdir(store);
    await run("mount", ["-t", "tmpfs", "-o", "size=96k", "tmpfs", store]);
    try {
      const receiver = await new ReceiverProcess(store).ready();
      const key = await newKey();
      const { token } = await makeToken(store);
      await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: "laptop" });
      await Deno.mkdir(`${dir}/home/ledgers/${SESSION_A}`, { recursive: true });
      const path = `${dir}/home/ledgers/${SESSION_A}/session.db`;
      await record(path, SESSION_A, entries(SESSION_A, 2000, true));
      const machine = await FleetMachine.open({
        home: { dir: `${dir}/home` },
        key,
        target: new HttpTarget(receiver.url, key),
        version: "1",
        isRunning: () => false,
      });
      const error = await machine.round();
      assertEquals(error?.code, "fleet.unavailable");
      assert(error!.message.includes("503"), error!.message);
      const folder = sessionFolder(store, key.publicKey.id, SESSION_A);
      for (const each of [folder, `${store}/incoming`]) {
        if (!await Deno.stat(each).catch(() => undefined)) continue;
        assertEquals(Array.from(Deno.readDirSync(each)).filter(({ name }) => !name.endsWith(".seg")), []);
      }
      await run("mount", ["-o", "remount,size=64m", store]);
      assertEquals(await machine.round(), undefined);
      assertEquals(await readEnd(folder), await readHeads(path));
      await receiver.kill();
    } finally {
      await run("umount", [store]);
      await Deno.remove(dir, { recursive: true });
    }
  },
});

/** @param random texts that do not compress */
function entries(session: string, count: number, random = false) {
  return Array.from({ length: count }, (_, at) => ({
    event: webEvent(
      session,
      `host${at % 5}.example.com`,
      random ? `/${crypto.randomUUID()}${crypto.randomUUID()}` : "/",
    ),
    decision: { decision: "allow", rule: { id: "rule-1" } },
  }));
}

async function run(command: string, args: string[]): Promise<void> {
  const { success, stderr } = await new Deno.Command(command, { args, stderr: "piped" }).output();
  assert(success, new TextDecoder().decode(stderr));
}
