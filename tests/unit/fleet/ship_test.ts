/** Ledgers on their way to a receiver: every row once, in order, whatever is lost or repeated between. */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { headerOf, openSegment, verifyRows } from "../../../lib/fleet/segment/mod.ts";
import { readEnd, readProblems } from "../../../lib/fleet/receive/mod.ts";
import { HttpTarget, readReport, type SegmentTarget } from "../../../lib/fleet/ship/mod.ts";
import { reportPath, sessionFolder } from "../../../lib/fleet/store.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readHeads } from "../../../lib/ledger/read/mod.ts";
import { newKey, record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../../helper/fleet.ts";

const entries = (count: number, session = SESSION_A) =>
  Array.from({ length: count }, (_, at) => ({
    event: webEvent(session, `host${at % 7}.example.com`),
    decision: { decision: at % 3 ? "allow" : "block", rule: { id: "rule-1" } },
    findings: at % 10 ? [] : [{ finding_id: `finding-${session}-${at}`, event_id: "e", rule_id: "r" }],
  }));

/** Files of a session's segments. */
async function segmentsOf(folder: string): Promise<Uint8Array[]> {
  const names = (await Array.fromAsync(Deno.readDir(folder))).map(({ name }) => name).sort();
  return await Promise.all(names.map((name) => Deno.readFile(`${folder}/${name}`)));
}

Deno.test("a ledger arrives whole, and what is appended later follows", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const path = `${fleet.dir}/session.db`;
  const shipper = fleet.shipper(key);
  const folder = sessionFolder(fleet.store, key.publicKey.id, SESSION_A);
  for (const total of [2500, 2600]) {
    await record(path, SESSION_A, entries(total === 2500 ? 2500 : 100));
    await shipper.ship(SESSION_A, path);
    assertEquals((await shipper.ship(SESSION_A, path)).rows, 0);
    assertEquals(await readEnd(folder), await readHeads(path));
    assertEquals((await readEnd(folder)).events, total);
  }
  const lines = [];
  for (const bytes of await segmentsOf(folder)) {
    lines.push(...verifyRows(await openSegment(bytes, () => key.publicKey)));
  }
  assertEquals(lines.filter(({ kind }) => kind === "event").length, 2600);
  assertEquals(lines.filter(({ kind }) => kind === "outcome").length, 2600);
  assertEquals(lines.filter(({ kind }) => kind === "journal").length, 260);
});

Deno.test("rows that are written while a segment is sent go with the next call, and all of them", async () => {
  await using one = await TestFleet.start();
  const key = await one.machine();
  const path = `${one.dir}/session.db`;
  await using ledger = await Ledger.open(path, { sessionId: SESSION_A });
  const append = async (count: number) => {
    for (let at = 0; at < count; at++) ledger.append({ event: webEvent(SESSION_A) });
    await ledger.flush();
  };
  const target = new HttpTarget(one.url, key);
  const busy = {
    name: target.name,
    report: (envelope: string) => target.report(envelope),
    send: async (segment: Uint8Array<ArrayBuffer>) => {
      await append(3);
      return await target.send(segment);
    },
  };
  const shipper = one.shipper(key, { target: busy });
  // More than one segment holds: a cut one is followed at once.
  await append(5000);
  const sent = await shipper.ship(SESSION_A, path);
  assertEquals([sent.segments, sent.events], [2, 5003]);
  const rest = await one.shipper(key).ship(SESSION_A, path);
  assertEquals([rest.segments, rest.events], [1, 3]);
});

Deno.test("answers that are lost and segments that come twice or late store nothing twice", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const path = `${fleet.dir}/session.db`;
  const http = new HttpTarget(fleet.url, key);
  const sent: Uint8Array<ArrayBuffer>[] = [];
  let turn = 0;
  const lossy: SegmentTarget = {
    name: http.name,
    async send(segment) {
      sent.push(segment);
      const at = turn++ % 3;
      if (at === 0) throw new SbxError("fleet.unavailable", "lost on the way");
      const receipt = await http.send(segment);
      if (at === 1) throw new SbxError("fleet.unavailable", "the answer is lost");
      // An earlier segment comes once more.
      await http.send(sent[0]);
      return receipt;
    },
    report: (envelope) => http.report(envelope),
  };
  for (let round = 0; round < 5; round++) {
    await record(path, SESSION_A, entries(50));
    for (let attempt = 0; attempt < 4; attempt++) {
      // A new shipper each time: only the files of the cursor are left.
      await fleet.shipper(key, { target: lossy }).ship(SESSION_A, path).catch((error) => {
        assertEquals(error.code, "fleet.unavailable");
      });
    }
    // The cursor itself is lost.
    await Deno.remove(`${fleet.dir}/cursor-${key.publicKey.id.slice(0, 8)}`, { recursive: true });
  }
  await fleet.shipper(key).ship(SESSION_A, path);
  const folder = sessionFolder(fleet.store, key.publicKey.id, SESSION_A);
  assertEquals(await readEnd(folder), await readHeads(path));
  let events = 0;
  for (const bytes of await segmentsOf(folder)) {
    events += headerOf(bytes).to.events - headerOf(bytes).from.events;
  }
  assertEquals(events, 250);
});

Deno.test("two receivers share a folder, and a session may change between them", async () => {
  await using one = await TestFleet.start();
  const { serveFleet } = await import("../../../lib/fleet/receive/mod.ts");
  const other = await serveFleet({ dir: one.store, hostname: "127.0.0.1", port: 0 });
  const key = await one.machine();
  const path = `${one.dir}/session.db`;
  const urls = [one.url, `http://127.0.0.1:${other.addr.port}`];
  let turn = 0;
  const targets = urls.map((url) => new HttpTarget(url, key));
  const target: SegmentTarget = {
    name: "both",
    send: (segment) => targets[turn++ % 2].send(segment),
    report: (envelope) => targets[0].report(envelope),
  };
  const shipper = one.shipper(key, { target });
  for (let round = 0; round < 6; round++) {
    await record(path, SESSION_A, entries(30));
    await shipper.ship(SESSION_A, path);
  }
  assertEquals(await readEnd(sessionFolder(one.store, key.publicKey.id, SESSION_A)), await readHeads(path));
  await other.shutdown();
});

Deno.test("a machine restored from a backup is told apart, and what was sent stays", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const path = `${fleet.dir}/session.db`;
  const cursors = `${fleet.dir}/cursor-${key.publicKey.id.slice(0, 8)}`;
  await record(path, SESSION_A, entries(20));
  await fleet.shipper(key).ship(SESSION_A, path);
  await Deno.copyFile(path, `${path}.backup`);
  const cursor = await Deno.readTextFile(`${cursors}/${SESSION_A}.json`);
  await record(path, SESSION_A, entries(20));
  await fleet.shipper(key).ship(SESSION_A, path);
  const folder = sessionFolder(fleet.store, key.publicKey.id, SESSION_A);
  const before = await readEnd(folder);

  // Both the ledger and the cursor are those of the backup, and other events follow.
  await Deno.copyFile(`${path}.backup`, path);
  await Deno.writeTextFile(`${cursors}/${SESSION_A}.json`, cursor);
  await record(path, SESSION_A, entries(40));
  const error = await assertRejects(() => fleet.shipper(key).ship(SESSION_A, path), SbxError);
  assertEquals(error.code, "fleet.forked");
  assertEquals(await readEnd(folder), before);
  const [problem] = await readProblems(fleet.store, key.publicKey.id);
  assertEquals([problem.kind, problem.session_id], ["fork", SESSION_A]);
  const report = await readReport(
    reportPath(fleet.store, key.publicKey.id, { kind: "fork", slot: SESSION_A }),
  );
  assert(report?.body.kind === "fork" && report.body.there.events === 40);
});

Deno.test("a changed segment, a stranger's and one of another machine's name are refused", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const stranger = await newKey();
  const path = `${fleet.dir}/session.db`;
  await record(path, SESSION_A, entries(20));
  const sent: Uint8Array<ArrayBuffer>[] = [];
  const catching = (): SegmentTarget => ({
    name: "nowhere",
    send(segment) {
      sent.push(segment);
      return Promise.resolve({ kept: true });
    },
    report: () => Promise.resolve(),
  });
  await fleet.shipper(key, { target: catching() }).ship(SESSION_A, path);
  await fleet.shipper(stranger, { target: catching() }).ship(SESSION_A, path);
  const [own, foreign] = sent;
  const post = async (bytes: Uint8Array<ArrayBuffer>, by = key) => {
    const { status, body } = await new HttpTarget(fleet.url, by).post(
      "v1/segments",
      bytes,
      "application/octet-stream",
    );
    return `${status} ${(body as { code?: string }).code}`;
  };
  assertEquals(await post(foreign, stranger), "403 fleet.machine.unknown");
  assertEquals(await post(foreign), "403 fleet.machine.unknown");
  // Another signature's key id in front of the same header.
  const renamed = new TextDecoder("latin1").decode(foreign).replaceAll(
    stranger.publicKey.id,
    key.publicKey.id,
  );
  assertEquals(
    await post(Uint8Array.from(renamed, (char) => char.charCodeAt(0))),
    "400 fleet.segment.invalid",
  );
  for (const at of [10, own.indexOf(10) + 20, own.length - 3]) {
    const changed = own.slice();
    changed[at] ^= 1;
    assertEquals(await post(changed), "400 fleet.segment.invalid", `byte ${at}`);
  }
  assertEquals(await post(own.slice(0, own.length - 40)), "400 fleet.segment.invalid");
  assertEquals(await post(new Uint8Array(20)), "400 fleet.segment.invalid");
  assertEquals(await post(own), "201 undefined");
  assertEquals(await post(own), "200 undefined");
});

Deno.test("a segment after a gap is not kept, and the gap is noted", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const path = `${fleet.dir}/session.db`;
  const sent: Uint8Array<ArrayBuffer>[] = [];
  const target: SegmentTarget = {
    name: "nowhere",
    send: (segment) => Promise.resolve((sent.push(segment), { kept: true as const })),
    report: () => Promise.resolve(),
  };
  const shipper = fleet.shipper(key, { target });
  for (let at = 0; at < 2; at++) {
    await record(path, SESSION_A, entries(10));
    await shipper.ship(SESSION_A, path);
  }
  const http = new HttpTarget(fleet.url, key);
  const late = await http.send(sent[1]);
  assert(!late.kept && late.position.events === 0);
  assertEquals((await readProblems(fleet.store, key.publicKey.id)).map(({ kind }) => kind), ["gap"]);
  assert((await http.send(sent[0])).kept);
  assert((await http.send(sent[1])).kept);
});

Deno.test("sessions of one machine do not mix", async () => {
  await using fleet = await TestFleet.start();
  const key = await fleet.machine();
  const shipper = fleet.shipper(key);
  for (const session of [SESSION_A, SESSION_B]) {
    await record(`${fleet.dir}/${session}.db`, session, entries(5, session));
    await shipper.ship(session, `${fleet.dir}/${session}.db`);
    assertEquals((await readEnd(sessionFolder(fleet.store, key.publicKey.id, session))).events, 5);
  }
});
