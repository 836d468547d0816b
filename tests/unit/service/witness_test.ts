/** Ends of records that the service sees while other processes write them, and records that differ. */
import { assertEquals, assertMatch, assertRejects } from "@std/assert";
import { dirname } from "node:path";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { type Home, home as homeOf } from "../../../lib/base/home/mod.ts";
import { type ChainHeads, GENESIS, Ledger } from "../../../lib/ledger/mod.ts";
import { readHeads, sealAbandoned, verifyLedger } from "../../../lib/ledger/read/mod.ts";
import { findContradiction, readWitness, witnessPath } from "../../../lib/ledger/witness/mod.ts";
import { Sessions } from "../../../lib/service/record/sessions.ts";
import { Witnesses } from "../../../lib/service/record/witness.ts";
import { sessionPaths } from "../../../lib/session/mod.ts";
import { execEvent, runSql } from "../../helper/ledger.ts";

const ID = "0d9f4a1e-8f5c-4d57-9e6b-1f2a3b4c5d6e";

/** One home with a session's record, and the service that witnesses it. */
class World {
  readonly home: Home;
  readonly ledger: string;
  witnesses: Witnesses;

  constructor(readonly dir: string) {
    this.home = homeOf({ get: (name) => name === "SBX_HOME" ? dir : undefined });
    this.ledger = sessionPaths(this.home, ID).ledger;
    this.witnesses = new Witnesses(this.home);
  }

  /** The session goes on for `count` events, which the service sees. */
  async record(count: number): Promise<void> {
    await this.witnesses.begin(ID);
    await this.write(count, (heads) => this.witnesses.take(ID, heads));
    await this.witnesses.ended(ID);
  }

  /** Writes events that the service does not see, unless `onHeads` reports them. */
  async write(count: number, onHeads?: (heads: ChainHeads) => void): Promise<void> {
    await Deno.mkdir(dirname(this.ledger), { recursive: true });
    const ledger = await Ledger.open(this.ledger, { sessionId: ID, onHeads });
    for (let at = 0; at < count; at++) {
      const event = execEvent(`echo ${at}`);
      event.common.session_id = ID;
      ledger.append({ event });
      ledger.end({ event_id: event.common.event_id, duration_ms: at });
    }
    await ledger.close();
  }

  async verify() {
    return await verifyLedger(this.ledger, ID, undefined, await this.witnesses.of(ID));
  }

  /** Removes the last rows of every chain, and seals what is left. */
  async cut(events: number): Promise<void> {
    await runSql(
      this.ledger,
      `DELETE FROM outcomes WHERE number > ${events}; DELETE FROM entries WHERE sequence > ${events}`,
    );
    await this.seal();
  }

  async seal(): Promise<void> {
    await Deno.remove(`${this.ledger}.seal`).catch(() => {});
    await sealAbandoned(this.ledger, ID);
    assertEquals((await verifyLedger(this.ledger, ID)).ok, true, "by itself the record is whole");
  }
}

async function withWorld(work: (world: World) => Promise<void>): Promise<void> {
  const world = new World(await Deno.makeTempDir());
  try {
    await work(world);
    await world.witnesses.close();
  } finally {
    await Deno.remove(world.dir, { recursive: true });
  }
}

Deno.test("a record is as the service saw it, over several lives of its VM", () =>
  withWorld(async (world) => {
    for (const events of [3, 6]) {
      await world.record(3);
      const { ok, witnessed } = await world.verify();
      assertEquals([ok, witnessed?.events, witnessed?.newer], [true, events, 0]);
      assertEquals((await readWitness(world.home, ID))?.heads, await readHeads(world.ledger));
    }
    const { mode } = await Deno.stat(witnessPath(world.home, ID));
    assertEquals(mode! & 0o777, 0o600);
    assertEquals(await world.witnesses.problems(), []);
  }));

Deno.test("a record of an older sbx, and a copy, have no witness, and verify as before", () =>
  withWorld(async (world) => {
    await world.write(3);
    assertEquals(await world.verify(), { ok: true, events: 3, sealed: true });
    await world.record(1);
    assertEquals((await world.verify()).witnessed?.events, 4, "its next life has one");
  }));

Deno.test("events that the service never saw count as newer, which is no fault", () =>
  withWorld(async (world) => {
    await world.record(3);
    await world.write(2);
    const { ok, events, witnessed } = await world.verify();
    assertEquals([ok, events, witnessed?.events, witnessed?.newer], [true, 5, 3, 2]);
    await world.witnesses.check(ID);
    assertEquals(await world.witnesses.problems(), []);
  }));

Deno.test("a record that was cut off is reported, also after the session has gone on", () =>
  withWorld(async (world) => {
    await world.record(5);
    await world.cut(3);
    const reason = /^it ends at event 3, and the service had witnessed event 5/;
    const { ok, first_bad, witnessed } = await world.verify();
    assertEquals([ok, first_bad?.code, witnessed], [false, "witness.lost", undefined]);
    assertMatch(first_bad!.reason, reason);
    // As at the start of the service, and at the next start of the VM, which writes past the old end.
    await world.record(9);
    const later = await world.verify();
    assertEquals([later.ok, later.first_bad?.code, later.events], [false, "witness.lost", 12]);
    assertMatch(later.first_bad!.reason, reason);
    const [issue] = await world.witnesses.problems();
    assertMatch(issue, new RegExp(`^the record of session ${ID} is not as the service saw it: it ends at`));
    // Of another life of the service, until the problem is old; the file of heads says it ever after.
    const next = new Witnesses(world.home);
    await next.load([]);
    assertEquals(await next.problems(), [issue]);
    assertEquals(await next.problems(Date.now() + 8 * 24 * 3600 * 1000), []);
    assertEquals((await next.of(ID))?.heads.events, 12, "it is witnessed again from there");
  }));

Deno.test("a chain that was cut off beside whole ones, and a record that is gone, are reported", () =>
  withWorld(async (world) => {
    await world.record(5);
    await runSql(world.ledger, "DELETE FROM outcomes WHERE number > 4");
    await world.seal();
    assertMatch((await world.verify()).first_bad!.reason, /^it ends at outcome 4/);
    await Deno.remove(dirname(world.ledger), { recursive: true });
    await world.witnesses.load([ID]);
    const [issue] = await world.witnesses.problems();
    assertMatch(issue, /it ends at event 0, and the service had witnessed event 5/);
  }));

Deno.test("a new record with as many rows counts as rewritten", () =>
  withWorld(async (world) => {
    await world.record(5);
    await Deno.remove(dirname(world.ledger), { recursive: true });
    await world.write(6);
    const { ok, first_bad } = await world.verify();
    assertEquals([ok, first_bad?.code], [false, "witness.rewritten"]);
    assertMatch(first_bad!.reason, /^event 5 is not the one that the service had witnessed/);
    await world.witnesses.check(ID);
    assertEquals((await world.witnesses.problems()).length, 1);
  }));

Deno.test("heads that take earlier ones back are a problem, and are not taken over", () =>
  withWorld(async (world) => {
    await world.record(5);
    const held = (await world.witnesses.of(ID))!.heads;
    world.witnesses.take(ID, { ...held, events: 4, head_hash: "a".repeat(64) });
    world.witnesses.take(ID, { ...held, journal: 0, journal_hash: GENESIS, outcome_hash: "b".repeat(64) });
    assertEquals((await world.witnesses.of(ID))!.heads, held);
    const { ok, first_bad } = await world.verify();
    assertEquals([ok, first_bad?.code], [false, "witness.contradicted"]);
    assertMatch(first_bad!.reason, /^its writer reported event 4 as the last one, after event 5 \(found /);
    world.witnesses.take(ID, { ...held, events: 6, head_hash: "c".repeat(64) });
    assertEquals((await world.witnesses.of(ID))!.heads.events, 6);
    assertEquals(
      (await world.witnesses.of(ID))!.problem?.code,
      "witness.contradicted",
      "the first one stays",
    );
  }));

Deno.test("each chain of a record only grows, or stays the same", () => {
  const heads = (change: Partial<ChainHeads>): ChainHeads => ({
    events: 2,
    head_hash: "1".repeat(64),
    outcomes: 2,
    outcome_hash: "2".repeat(64),
    journal: 2,
    journal_hash: "3".repeat(64),
    ...change,
  });
  const codes = (change: Partial<ChainHeads>) => findContradiction(heads({}), heads(change))?.code;
  for (const fine of [{}, { events: 3 }, { outcomes: 9, outcome_hash: "f".repeat(64) }, { journal: 3 }]) {
    assertEquals(codes(fine), undefined);
  }
  for (const length of ["events", "outcomes", "journal"] as const) {
    assertEquals(codes({ [length]: 1 }), "witness.contradicted");
  }
  for (const hash of ["head_hash", "outcome_hash", "journal_hash"] as const) {
    assertEquals(codes({ [hash]: "f".repeat(64) }), "witness.contradicted");
  }
});

Deno.test("a disk that takes no heads delays nothing, and is an issue until it does", () =>
  withWorld(async (world) => {
    await Deno.writeTextFile(`${world.dir}/record`, "in the way of the folder");
    await world.record(3);
    const [issue, ...others] = await world.witnesses.problems();
    assertMatch(issue, /^the ends of records that this service sees are not kept: /);
    assertEquals(others, []);
    assertEquals((await world.verify()).witnessed?.events, 3, "it is in memory");
    await Deno.remove(`${world.dir}/record`);
    await world.witnesses.close();
    assertEquals(await world.witnesses.problems(), []);
    assertEquals((await readWitness(world.home, ID))?.heads.events, 3);
  }));

Deno.test("the heads of a record that sbx removes go with it", () =>
  withWorld(async (world) => {
    await world.record(3);
    const sessions = new Sessions(world.home);
    await sessions.remove(ID, { reason: "person", by: { user: "ann", client: "test" } });
    assertEquals(await readWitness(world.home, ID), undefined);
    await world.witnesses.load([ID]);
    assertEquals(await world.witnesses.problems(), []);
  }));

Deno.test("damaged heads prove nothing: they are an error, and the service begins again", () =>
  withWorld(async (world) => {
    await world.record(3);
    for (const text of ["{", '{"schema":"sbx.ledger-witness.v1"}']) {
      await Deno.writeTextFile(witnessPath(world.home, ID), text);
      const error = await assertRejects(() => readWitness(world.home, ID), SbxError);
      assertEquals(error.code, "witness.damaged");
    }
    await world.record(1);
    assertEquals((await world.verify()).witnessed?.events, 4);
  }));
