/**
 * A writer of a record that rewrites the past of a session that runs, with all hashes made again, and its
 * seal signed with the machine's own key: the ends that the service has seen stay.
 */
import { assert, assertEquals } from "@std/assert";
import { dirname } from "node:path";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { canonicalJson } from "../../../lib/base/json/mod.ts";
import { type ChainHeads, digestText, Ledger } from "../../../lib/ledger/mod.ts";
import { Database } from "../../../lib/ledger/database.ts";
import { sealAbandoned, type Verification, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { checkSeal, ensureSigningKey, signSeal } from "../../../lib/release/signing/mod.ts";
import { Witnesses } from "../../../lib/service/record/witness.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { NO_KEYRING } from "../../helper/certificate.ts";
import { execEvent } from "../../helper/ledger.ts";

const ID = "0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e";
const GENESIS = "0".repeat(64);

interface Target {
  home: Home;
  ledger: string;
  witnesses: Witnesses;
}

/** Attacks the record of a session that runs. @returns its checks, without and with the witness */
async function attack(
  change: (database: Database, target: Target) => void | Promise<void>,
): Promise<{ alone: Verification; witnessed: Verification; issues: string[] }> {
  const dir = await Deno.makeTempDir();
  try {
    const home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    const key = await ensureSigningKey(home, NO_KEYRING);
    const { ledger: path } = sessionPaths(home, ID);
    const witnesses = new Witnesses(home);
    const target = { home, ledger: path, witnesses };
    await Deno.mkdir(dirname(path), { recursive: true });
    await witnesses.begin(ID);
    const ledger = await Ledger.open(path, {
      sessionId: ID,
      onHeads: (heads: ChainHeads) => witnesses.take(ID, heads),
    });
    for (let at = 1; at <= 20; at++) {
      const event = execEvent(at === 20 ? "cat /etc/shadow" : `echo ${at}`);
      event.common.session_id = ID;
      ledger.append({ event, decision: { decision: "allow" } });
      ledger.end({ event_id: event.common.event_id, duration_ms: at });
    }
    await ledger.flush();
    const database = new Database(path);
    await change(database, target);
    database.close();
    // The process ends without another word, as by a kill −9, and the record is sealed as it is found.
    await ledger.close().catch(() => {});
    await Deno.remove(`${path}.seal`).catch(() => {});
    await sealAbandoned(path, ID, (text) => signSeal(home, text));
    const check = (seal: string) => checkSeal(seal, [key.publicKey], true);
    await witnesses.ended(ID);
    return {
      alone: await verifyLedger(path, ID, check),
      witnessed: await verifyLedger(path, ID, check, await witnesses.of(ID)),
      issues: await witnesses.problems(),
    };
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

/** Makes the chain of events again from a row on, as their writer would have. */
async function chainAgain(database: Database, from: number, text: (event: string) => string): Promise<void> {
  const { rows } = await database.execute("SELECT sequence, event, record FROM entries ORDER BY sequence");
  let previous = GENESIS;
  for (const { sequence, event, record } of rows) {
    const now = Number(sequence) >= from ? text(event as string) : event as string;
    const hash = digestText(now, previous);
    const link = digestText(record as string, hash);
    await database.execute({
      sql: "UPDATE entries SET event = ?, prev_hash = ?, hash = ?, record_hash = ? WHERE sequence = ?",
      args: [now, previous, hash, link, sequence as number],
    });
    previous = link;
  }
}

Deno.test("the last events are cut off a record that runs, and it is sealed without them", async () => {
  const { alone, witnessed, issues } = await attack((database) => {
    database.exec("DELETE FROM outcomes WHERE number = 20; DELETE FROM entries WHERE sequence = 20");
  });
  assertEquals([alone.ok, alone.events, alone.signed_by?.trusted], [true, 19, true], "its seal is good");
  assertEquals([witnessed.ok, witnessed.first_bad?.code], [false, "witness.lost"]);
  assert(issues[0].includes("it ends at event 19, and the service had witnessed event 20"), issues[0]);
});

Deno.test("an event of a record that runs is rewritten, with every hash after it", async () => {
  const { alone, witnessed, issues } = await attack((database) =>
    chainAgain(database, 20, (event) => event.replace("cat /etc/shadow", "cat /etc/motd"))
  );
  assertEquals([alone.ok, alone.events, alone.signed_by?.trusted], [true, 20, true], "its seal is good");
  assertEquals([witnessed.ok, witnessed.first_bad?.code], [false, "witness.rewritten"]);
  assert(issues[0].includes("event 20 is not the one that the service had witnessed"), issues[0]);
});

/** Appends an event to the chain as it is now. @returns the heads */
async function append(database: Database, heads: ChainHeads): Promise<ChainHeads> {
  const { rows: [last] } = await database.execute("SELECT * FROM entries ORDER BY sequence DESC LIMIT 1");
  const event = execEvent("echo later");
  event.common.session_id = ID;
  event.common.sequence = heads.events + 1;
  const { event_id, event_type } = event.common;
  const text = canonicalJson(event);
  const hash = digestText(text, last.record_hash as string);
  const head_hash = digestText(last.record as string, hash);
  await database.execute({
    sql:
      `INSERT INTO entries (sequence, event_id, event_type, event, prev_hash, hash, decision, record, record_hash)
      VALUES (?,?,?,?,?,?,?,?,?)`,
    args: [
      event.common.sequence,
      event_id,
      event_type,
      text,
      last.record_hash as string,
      hash,
      last.decision as string,
      last.record as string,
      head_hash,
    ],
  });
  return { ...heads, events: heads.events + 1, head_hash };
}

Deno.test("an early event is rewritten, and its writer goes on from there as if nothing had been", async () => {
  const { alone, witnessed, issues } = await attack(async (database, { witnesses }) => {
    const { heads } = (await witnesses.of(ID))!;
    await chainAgain(database, 3, (event) => event.replace("echo 3", "echo 4"));
    // Longer than what was seen, and an end that the record has.
    witnesses.take(ID, await append(database, heads));
  });
  assertEquals([alone.ok, alone.events, alone.signed_by?.trusted], [true, 21, true], "its seal is good");
  assertEquals([witnessed.ok, witnessed.first_bad?.code], [false, "witness.rewritten"]);
  assert(issues[0].includes("event 20 is not the one that the service had witnessed"), issues[0]);
});

Deno.test("the heads of a rewritten record are reported with the same number", async () => {
  const { witnessed, issues } = await attack(async (database, { witnesses }) => {
    const before = (await witnesses.of(ID))!.heads;
    await chainAgain(database, 3, (event) => event.replace("echo 3", "echo 4"));
    const { rows: [last] } = await database.execute(
      "SELECT record_hash FROM entries ORDER BY sequence DESC LIMIT 1",
    );
    witnesses.take(ID, { ...before, head_hash: last.record_hash as string });
    assertEquals((await witnesses.of(ID))!.heads, before);
  });
  assertEquals([witnessed.ok, witnessed.first_bad?.code], [false, "witness.contradicted"]);
  assert(issues[0].includes("two different ends of the record, both at event 20"), issues[0]);
});

Deno.test("a record that runs is replaced by its own state of before, which verifies", async () => {
  const { alone, witnessed } = await attack((database) => {
    database.exec("DELETE FROM outcomes WHERE number > 5; DELETE FROM entries WHERE sequence > 5");
  });
  assertEquals([alone.ok, alone.events], [true, 5]);
  assertEquals([witnessed.ok, witnessed.first_bad?.code], [false, "witness.lost"]);
});
