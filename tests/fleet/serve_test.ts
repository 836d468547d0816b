/**
 * Receivers that write tables besides their store: several on one folder, killed
 * at any moment, every row once.
 */
import { assert, assertEquals } from "@std/assert";
import { join } from "node:path";
import { checkFleet, enrol, makeToken } from "../../lib/fleet/receive/mod.ts";
import { HttpTarget, Shipper } from "../../lib/fleet/ship/mod.ts";
import { openRecords } from "../../lib/fleet/table/mod.ts";
import { formatPublicKey } from "../../lib/release/signing/mod.ts";
import { newKey, record, SESSION_A, webEvent } from "../helper/fleet.ts";
import { fromRoot } from "../helper/repo.ts";
import { ReceiverProcess } from "../helper/receiver_process.ts";

const ROUNDS = Number(Deno.env.get("ROUNDS") ?? 4);
const PACK = (await Deno.readTextFile(fromRoot("fixtures/detection/minimal.pack.yaml")))
  .replace("sbx.minimal", "past").replace("api.github.com", "evil.example.net")
  .replace(/ {10}Method:\n(?: {12}- \w+\n)+/, "");

Deno.test("receivers that are killed while they write tables: every row once, and new packs are hunted by themselves", async () => {
  const dir = await Deno.makeTempDir();
  const store = join(dir, "store");
  const packs = join(dir, "packs");
  await Deno.mkdir(packs);
  const key = await newKey();
  const { token } = await makeToken(store);
  await enrol(store, { token, public_key: formatPublicKey(key.publicKey), name: "m" });
  const path = join(dir, "session.db");
  const options = ["--tables", "1", "--packs", packs, "--days", "3000"];
  let total = 0;
  for (let round = 0; round < ROUNDS; round++) {
    const receivers = [
      await new ReceiverProcess(store, options).ready(),
      await new ReceiverProcess(store, options).ready(),
    ];
    const count = 700;
    const host = round === 0 ? "evil.example.net" : "good.example.net";
    await record(
      path,
      SESSION_A,
      Array.from({ length: count }, () => ({ event: webEvent(SESSION_A, host) })),
    );
    total += count;
    const target = new HttpTarget(receivers[round % 2].url, key);
    await new Shipper({ dir: join(dir, `cursors-${round}`), key, target }).ship(SESSION_A, path);
    // Some of these moments are amid a part.
    await new Promise((resolve) => setTimeout(resolve, 900 + 700 * round));
    await Promise.all(receivers.map((receiver) => receiver.kill()));
  }
  const last = await new ReceiverProcess(store, options).ready();
  try {
    await until(async () => await rowsIn(store) === total);
    await Deno.writeTextFile(join(packs, "past.yaml"), PACK);
    const findings = async () => {
      const folder = join(store, "findings", "past");
      const names = await Array.fromAsync(Deno.readDir(folder)).catch(() => []);
      const files = names.filter(({ name }) => name.endsWith(".jsonl"));
      const texts = await Promise.all(files.map(({ name }) => Deno.readTextFile(join(folder, name))));
      return texts.flatMap((text) => text.trimEnd().split("\n").slice(1)).map((line) => JSON.parse(line));
    };
    await until(async () => (await findings()).length >= 700);
    const found = await findings();
    assertEquals(found.length, 700);
    assert(found.every(({ retro, event_at }) => retro === true && event_at === "2023-11-14T22:13:20.000Z"));
  } finally {
    await last.kill();
  }
  assertEquals(await rowsIn(store), total);
  const { machines: [machine] } = await checkFleet(store);
  assertEquals(machine.sessions.map(({ events }) => events), [total]);
  await Deno.remove(dir, { recursive: true });
});

/** Rows of events in the tables, each of which is there once. */
async function rowsIn(store: string): Promise<number> {
  try {
    await using over = await openRecords(`duckdb://${store}`);
    const [row] = await over.engine.rows(
      `SELECT count(*) AS rows, count(DISTINCT sequence) AS sequences FROM ${over.table!("events")}`,
    );
    assertEquals(row.rows, row.sequences, "a row is there twice");
    return Number(row.rows);
  } catch (error) {
    if ((error as Error).message.includes("has no tables")) return 0;
    throw error;
  }
}

/**
 * Waits for what a process does by itself. The test has no limit of its own: a child that
 * hangs is killed with the suite.
 */
async function until(isDone: () => Promise<boolean>): Promise<void> {
  for (let turn = 0; turn < 600; turn++) {
    if (await isDone()) return;
    await new Promise((resolve) => setTimeout(resolve, 500));
  }
  throw new Error("it did not happen");
}
