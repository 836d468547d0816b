/** A home that ships its ledgers, and what `sbx-admin fleet verify` says of the store. */
import { assert, assertEquals, assertMatch } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { FleetMachine, openTarget, readStatus } from "../../../lib/fleet/machine/mod.ts";
import { Register, registerPath } from "../../../lib/fleet/register/mod.ts";
import { headerOf } from "../../../lib/fleet/segment/mod.ts";
import { checkFleet } from "../../../lib/fleet/receive/mod.ts";
import { makeReport, readReport, type SegmentTarget } from "../../../lib/fleet/ship/mod.ts";
import { readHeads } from "../../../lib/ledger/read/mod.ts";
import { reportOf } from "../../../lib/fleet/ship/report.ts";
import { reportPath, sessionFolder } from "../../../lib/fleet/store.ts";
import type { SigningKey } from "../../../lib/release/mod.ts";
import { record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../../helper/fleet.ts";

const entries = (session: string, count = 10) =>
  Array.from({ length: count }, () => ({ event: webEvent(session) }));

class World implements AsyncDisposable {
  readonly running = new Set<string>();
  /** index of the home */
  readonly index: string[] = [];
  register?: Register;
  /** why the register cannot be opened */
  fault?: SbxError;

  private constructor(readonly fleet: TestFleet, readonly key: SigningKey) {}

  static async start(): Promise<World> {
    const fleet = await TestFleet.start();
    return new World(fleet, await fleet.machine("laptop-1", "payments"));
  }

  get home() {
    return { dir: `${this.fleet.dir}/home` };
  }

  ledger(session: string): string {
    return `${this.home.dir}/ledgers/${session}/session.db`;
  }

  async record(session: string, count?: number): Promise<void> {
    await Deno.mkdir(`${this.home.dir}/ledgers/${session}`, { recursive: true });
    await record(this.ledger(session), session, entries(session, count));
  }

  machine(target: SegmentTarget = openTarget(this.fleet.url, this.key)): Promise<FleetMachine> {
    return FleetMachine.open({
      home: this.home,
      key: this.key,
      target,
      version: "1.2.3",
      isRunning: (id) => this.running.has(id),
      index: () => Promise.resolve(this.index),
      ...(this.fault && { register: () => Promise.reject(this.fault) }),
      ...(this.register && { register: () => Promise.resolve(this.register!) }),
    });
  }

  async check() {
    const { machines, ...all } = await checkFleet(this.fleet.store);
    return { ...all, ...machines[0] };
  }

  [Symbol.asyncDispose]() {
    return this.fleet[Symbol.asyncDispose]();
  }
}

Deno.test("a home's sessions arrive, and a store that has them all is complete", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  await world.record(SESSION_B, 3);
  world.running.add(SESSION_B);
  const machine = await world.machine();
  assertEquals(await machine.round(), undefined);
  assertEquals(machine.status.sessions, { all: 2, behind: 0, forked: [], refused: [], lost: 0 });
  assertEquals((await readStatus(world.home))?.shipped.events, 13);
  const { ok, events, sessions, team } = await world.check();
  assertEquals([ok, events, team], [true, 13, "payments"]);
  assertEquals(sessions.map(({ state }) => state), ["complete", "open"]);

  // The other one ends too.
  world.running.clear();
  await (await world.machine()).round();
  assertEquals((await world.check()).sessions.map(({ state }) => state), ["complete", "complete"]);
});

Deno.test("what waits for a collector that is away is told, and sent when it is back", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  let away = true;
  const real = openTarget(world.fleet.url, world.key);
  const machine = await world.machine({
    name: real.name,
    send: (segment) => away ? Promise.reject(new SbxError("fleet.unavailable", "away")) : real.send(segment),
    report: (envelope) =>
      away ? Promise.reject(new SbxError("fleet.unavailable", "away")) : real.report(envelope),
  });
  assertEquals((await machine.round())?.message, "away");
  assertEquals(machine.status.sessions.behind, 1);
  assertEquals(await machine.release(SESSION_A), false, "its ledger is still needed");
  away = false;
  assertEquals(await machine.round(), undefined);
  assertEquals(await machine.release(SESSION_A), true);
});

Deno.test("a ledger that is removed before it was sent is a loss that the collector hears of", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  world.running.add(SESSION_A);
  const machine = await world.machine();
  await machine.round();
  await Deno.remove(`${world.home.dir}/ledgers/${SESSION_A}`, { recursive: true });
  await machine.round();
  assertEquals(machine.status.sessions.lost, 1);
  const { ok, problems } = await world.check();
  assert(!ok);
  assertMatch(problems.join("\n"), /rows behind event 10 are lost/);
});

Deno.test("a ledger that is removed before its first row was sent is a loss, by cursor or by the home's index", async () => {
  for (const way of ["seen", "indexed", "emptied"]) {
    await using world = await World.start();
    await world.record(SESSION_A);
    world.index.push(SESSION_A);
    let away = way !== "indexed";
    const real = openTarget(world.fleet.url, world.key);
    const unavailable = () => Promise.reject(new SbxError("fleet.unavailable", "away"));
    const machine = await world.machine({
      name: real.name,
      send: (segment) => away ? unavailable() : real.send(segment),
      report: (envelope) => away ? unavailable() : real.report(envelope),
    });
    if (way !== "indexed") await machine.round();
    const folder = `${world.home.dir}/ledgers/${SESSION_A}`;
    await Deno.remove(way === "emptied" ? `${folder}/session.db` : folder, { recursive: true });
    away = false;
    for (let round = 0; round < 3; round++) assertEquals(await machine.round(), undefined);
    assertEquals(machine.status.sessions.lost, 1, way);
    const { ok, problems, sessions } = await world.check();
    assertEquals([ok, sessions[0]?.state], [false, "bad"], way);
    assertMatch(problems.join("\n"), /rows behind event 0 are lost/, way);
    // A service that starts again does not tell it again.
    const again = await world.machine(real);
    await again.round();
    assertEquals(again.status.sessions.lost, 1, way);
  }
});

Deno.test("a VM that never began, and a session whose retention ended, are no losses", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  await Deno.mkdir(`${world.home.dir}/ledgers/${SESSION_B}`, { recursive: true });
  world.index.push(SESSION_A, SESSION_B);
  const machine = await world.machine();
  await machine.round();
  assertEquals(await machine.release(SESSION_A), true);
  world.index.shift();
  await Deno.remove(`${world.home.dir}/ledgers/${SESSION_A}`, { recursive: true });
  await (await world.machine()).round();
  const { ok, problems } = await world.check();
  assertEquals([ok, problems], [true, []]);
});

Deno.test("a session that a machine named and names no more is told, without its ledger, cursor and index", async () => {
  for (const wasSent of [true, false]) {
    await using world = await World.start();
    await world.record(SESSION_A);
    world.running.add(SESSION_A);
    const real = openTarget(world.fleet.url, world.key);
    const machine = await world.machine({
      name: real.name,
      // Its rows are refused, so that only the list of sessions names it.
      send: (segment) =>
        wasSent ? real.send(segment) : Promise.reject(new SbxError("fleet.refused", "status 400")),
      report: (envelope) => real.report(envelope),
    });
    await machine.round();
    for (const path of [`ledgers/${SESSION_A}`, `fleet/cursors/${SESSION_A}.json`]) {
      await Deno.remove(`${world.home.dir}/${path}`, { recursive: true });
    }
    await (await world.machine()).round();
    const { ok, problems } = await world.check();
    assertEquals(ok, false);
    assertMatch(problems.join("\n"), new RegExp(`vanished, ${SESSION_A}.*no longer names it`));
  }
});

Deno.test("verify tells a missing segment, a changed one, a cut-off end and a killed process", async () => {
  await using world = await World.start();
  for (const session of [SESSION_A, SESSION_B]) {
    await world.record(session);
    world.running.add(session);
  }
  const machine = await world.machine();
  await machine.round();
  for (const session of [SESSION_A, SESSION_B]) await world.record(session);
  await Deno.writeTextFile(`${world.ledger(SESSION_B)}.unflushed`, "");
  world.running.clear();
  await machine.round();
  const first = await world.check();
  assertMatch(first.problems.join("\n"), new RegExp(`^session ${SESSION_B}: its process was killed`));

  const folder = sessionFolder(world.fleet.store, world.key.publicKey.id, SESSION_A);
  const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();
  assertEquals(names.length, 2);
  const bytes = await Deno.readFile(`${folder}/${names[1]}`);
  const problemWith = async (work: () => Promise<void>) => {
    await work();
    const { problems } = await world.check();
    await Deno.writeFile(`${folder}/${names[1]}`, bytes);
    return problems.find((line) => line.includes(SESSION_A)) ?? "";
  };
  assertMatch(await problemWith(() => Deno.remove(`${folder}/${names[1]}`)), /10 of 20 events have arrived/);
  assertMatch(
    await problemWith(async () => {
      bytes[bytes.length - 9] ^= 1;
      await Deno.writeFile(`${folder}/${names[1]}`, bytes);
      bytes[bytes.length - 9] ^= 1;
    }),
    /refused: its rows/,
  );
  await Deno.remove(`${folder}/${names[0]}`);
  assertMatch((await world.check()).problems.join("\n"), /does not follow the one before/);
});

Deno.test("a folder is a collector too", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  const machine = await world.machine(openTarget(`file://${world.fleet.store}`, world.key));
  assertEquals(await machine.round(), undefined);
  const { ok, sessions } = await world.check();
  assertEquals([ok, sessions[0].state], [true, "complete"]);
});

Deno.test("a clock that is years off neither hides a machine nor loses its rows", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  const target = openTarget(world.fleet.url, world.key);
  for (const year of ["2061", "1999"]) {
    const body = { kind: "alive" as const, sbx: `of ${year}`, sessions: [] };
    await target.report(await makeReport(world.key, body, new Date(`${year}-01-01T00:00:00Z`)));
  }
  const last = await readReport(reportPath(world.fleet.store, world.key.publicKey.id, { kind: "alive" }));
  assertEquals(last?.body.kind === "alive" ? last.body.sbx : "", "of 1999");
  const machine = await world.machine();
  await machine.round();
  assertEquals((await world.check()).ok, true);
});

Deno.test("rows that the collector refuses are told, and neither sent every second nor in the way of others", async () => {
  await using world = await World.start();
  for (const session of [SESSION_A, SESSION_B]) await world.record(session);
  const real = openTarget(world.fleet.url, world.key);
  const tried: string[] = [];
  const machine = await world.machine({
    name: real.name,
    send(segment) {
      const { session_id } = headerOf(segment);
      tried.push(session_id);
      if (session_id === SESSION_A) {
        throw new SbxError("fleet.refused", "the collector answers with status 400");
      }
      return real.send(segment);
    },
    report: (envelope) => real.report(envelope),
  });
  for (let round = 0; round < 3; round++) assertEquals(await machine.round(), undefined);
  assertEquals(tried, [SESSION_A, SESSION_B]);
  assertEquals(machine.status.sessions, { all: 2, behind: 1, forked: [], refused: [SESSION_A], lost: 0 });
  assertEquals((await world.check()).sessions.map(({ state }) => state), ["behind", "complete"]);
});

Deno.test("a machine that the collector refuses sends nothing more in that round, and says so", async () => {
  await using world = await World.start();
  for (const session of [SESSION_A, SESSION_B]) await world.record(session);
  await using collector = Deno.serve(
    { hostname: "127.0.0.1", port: 0, onListen() {} },
    () => Response.json({ error: "this machine is retired" }, { status: 403 }),
  );
  const machine = await world.machine(openTarget(`http://127.0.0.1:${collector.addr.port}`, world.key));
  const error = await machine.round();
  assertEquals(error?.code, "fleet.denied");
  assertEquals(machine.status.sessions.refused, [SESSION_A]);
  assertEquals(machine.status.sessions.behind, 2);
});

Deno.test("a session that left no trace but its number is missed", async () => {
  await using world = await World.start();
  world.register = await Register.open(world.home, world.key);
  await world.register.begin(SESSION_A);
  await world.record(SESSION_A);
  await (await world.machine()).round();
  assertEquals((await world.check()).problems, []);
  // The collector is away; the person works, and removes ledger, cursor and entry of the index.
  await world.register.begin(SESSION_B);
  await (await world.machine()).round();
  const { ok, problems, sessions } = await world.check();
  assert(!ok);
  assertMatch(problems.join("\n"), /announced as number 2 on .*, and none of its rows has arrived/);
  assertEquals(sessions.map(({ state }) => state), ["complete", "bad"]);
});

Deno.test("a register that was cut, written anew or removed is noticed", async () => {
  for (const way of ["cut", "anew", "gone"]) {
    await using world = await World.start();
    world.register = await Register.open(world.home, world.key);
    for (const id of [SESSION_A, SESSION_B]) {
      await world.register.begin(id);
      await world.record(id);
    }
    await (await world.machine()).round();
    assertEquals((await world.check()).problems, []);
    const path = registerPath(world.home);
    const text = await Deno.readTextFile(path);
    if (way === "cut") await Deno.writeTextFile(path, text.split("\n")[0] + "\n");
    else await Deno.remove(path);
    if (way === "gone") delete world.register;
    else world.register = await Register.open(world.home, world.key);
    if (way === "anew") { for (const id of [SESSION_B, SESSION_A]) await world.register!.begin(id); }
    await (await world.machine()).round();
    assertMatch(
      (await world.check()).problems.join("\n"),
      {
        cut: /it had 2 entries, and has 1/,
        anew: /the machine has another entry 2/,
        gone: /the machine has none any more/,
      }[way]!,
    );
  }
});

Deno.test("entries of a register are sent once, in order, and a hole in them is named", async () => {
  await using world = await World.start();
  world.register = await Register.open(world.home, world.key);
  for (const id of [SESSION_A, SESSION_B]) {
    await world.register.begin(id);
    await world.record(id);
  }
  await (await world.machine()).round();
  // A cursor that was lost sends them again, which changes nothing.
  await Deno.remove(`${world.home.dir}/fleet/register.json`);
  await (await world.machine()).round();
  assertEquals((await world.check()).problems, []);
  await Deno.remove(
    reportPath(world.fleet.store, world.key.publicKey.id, { kind: "register", slot: "000000000001" }),
  );
  assertMatch((await world.check()).problems.join("\n"), /entry 1 is missing/);
});

Deno.test("a record that was removed after all of it arrived is complete, and one removed before is told", async () => {
  await using world = await World.start();
  const register = world.register = await Register.open(world.home, world.key);
  for (const id of [SESSION_A, SESSION_B]) await register.begin(id);
  await world.record(SESSION_A);
  const machine = await world.machine();
  await machine.round();
  const remove = async (id: string) => {
    const heads = await readHeads(world.ledger(id));
    await register.remove(id, { reason: "person", heads, by: { user: "ann", client: "sbx" } });
    await Deno.remove(`${world.home.dir}/ledgers/${id}`, { recursive: true });
  };
  await remove(SESSION_A);
  await (await world.machine()).round();
  const before = (await world.check()).problems;
  assertEquals(before.filter((line) => line.includes(SESSION_A)), []);
  await world.record(SESSION_B, 3);
  await remove(SESSION_B);
  await (await world.machine()).round();
  assertMatch(
    (await world.check()).problems.join("\n"),
    /its record was removed \(person by ann\) when 0 of 3 events had arrived/,
  );
});

Deno.test("a record that was made unreadable, unsent, and then removed is told", async () => {
  await using world = await World.start();
  const register = world.register = await Register.open(world.home, world.key);
  for (const id of [SESSION_A, SESSION_B]) {
    await register.begin(id);
    await world.record(id);
  }
  let isAway = false;
  const real = openTarget(world.fleet.url, world.key);
  const unavailable = () => Promise.reject(new SbxError("fleet.unavailable", "away"));
  const machine = await world.machine({
    ...{ name: real.name, report: (envelope) => real.report(envelope) },
    send: (segment) => isAway ? unavailable() : real.send(segment),
  });
  await Deno.rename(`${world.home.dir}/ledgers/${SESSION_B}`, `${world.home.dir}/later`);
  await machine.round();
  // All of the first one is there; of the second one, the person keeps everything back.
  isAway = true;
  await Deno.rename(`${world.home.dir}/later`, `${world.home.dir}/ledgers/${SESSION_B}`);
  for (const id of [SESSION_A, SESSION_B]) {
    await Deno.writeTextFile(world.ledger(id), "no database");
    assert(await machine.release(id));
    await register.remove(id, { reason: "person", heads: null, by: { user: "ann", client: "sbx" } });
    await Deno.remove(`${world.home.dir}/ledgers/${id}`, { recursive: true });
  }
  await (await world.machine()).round();
  const { ok, problems, sessions } = await world.check();
  assert(!ok);
  const lines = problems.join("\n");
  assertMatch(
    lines,
    new RegExp(`${SESSION_B}: its record was removed \\(person by ann\\) when it could not be read`),
  );
  assert(!lines.includes(SESSION_A));
  assertEquals(sessions.map(({ state }) => state), ["complete", "bad"]);
});

Deno.test("a register that cannot be opened, as on a full disk, stops no rows, and is told", async () => {
  await using world = await World.start();
  await world.record(SESSION_A);
  world.fault = new SbxError("register.unavailable", "the disk is full");
  const machine = await world.machine();
  assertEquals((await machine.round())?.code, "register.unavailable");
  assertEquals(machine.status.sessions.behind, 0);
  assertMatch((await readStatus(world.home))!.error!, /the disk is full/);
  const { events, sessions } = await world.check();
  assertEquals([events, sessions.map(({ state }) => state)], [10, ["complete"]]);
});

Deno.test("a register that the collector refuses stops no rows, and is named", async () => {
  await using world = await World.start();
  world.register = await Register.open(world.home, world.key);
  await world.register.begin(SESSION_A);
  await world.record(SESSION_A);
  const real = openTarget(world.fleet.url, world.key);
  let tried = 0;
  const machine = await world.machine({
    name: real.name,
    send: (segment) => real.send(segment),
    report(envelope) {
      if (reportOf(envelope).body.kind !== "register") return real.report(envelope);
      tried++;
      throw new SbxError("fleet.refused", "the stream has another entry 1");
    },
  });
  for (let round = 0; round < 3; round++) assertEquals((await machine.round())?.code, "fleet.refused");
  assertEquals([tried, machine.status.sessions.behind, machine.status.last_good_at], [1, 0, null]);
  assertMatch((await readStatus(world.home))!.error!, /another entry 1/);
  const { events, sessions, problems } = await world.check();
  assertEquals([events, sessions.map(({ state }) => state)], [10, ["complete"]]);
  assertMatch(problems.join("\n"), /entries 1 to 1 have not arrived/);
});

Deno.test("records that were removed before the machine had a collector are no losses, and later ones are", async () => {
  for (const way of ["server", "folder"]) {
    await using world = await World.start();
    const register = world.register = await Register.open(world.home, world.key);
    const target = way === "server"
      ? openTarget(world.fleet.url, world.key)
      : openTarget(`file://${world.fleet.store}`, world.key);
    const remove = async (id: string) => {
      const heads = await readHeads(world.ledger(id));
      await register.remove(id, { reason: "retention", heads });
      await Deno.remove(`${world.home.dir}/ledgers/${id}`, { recursive: true });
    };
    await register.begin(SESSION_A);
    await world.record(SESSION_A, 3);
    await remove(SESSION_A);
    await (await world.machine(target)).round();
    const { ok, problems, sessions } = await world.check();
    assertEquals([ok, problems, sessions], [true, [], []]);

    await register.begin(SESSION_B);
    await world.record(SESSION_B, 3);
    await remove(SESSION_B);
    await (await world.machine(target)).round();
    const later = await world.check();
    assertMatch(later.problems.join("\n"), /\(retention\) when 0 of 3 events had arrived/);
    assertEquals(later.sessions.map(({ state }) => state), ["bad"]);
  }
});
