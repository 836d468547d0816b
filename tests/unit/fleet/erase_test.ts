/** Erasure, retention and export: content goes from every store, and the chain still verifies. */
import { assert, assertEquals, assertMatch, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { blake3 } from "../../../lib/base/hash/mod.ts";
import { makeHomeCertificate } from "../../../lib/fleet/enrolment/mod.ts";
import { applyRetention, erase, exportSubject, findSubject } from "../../../lib/fleet/erase/mod.ts";
import { readLog, readStoreKey } from "../../../lib/fleet/log/mod.ts";
import { checkFleet, enrolHome } from "../../../lib/fleet/receive/mod.ts";
import { makeSegment, openSegment, openStored, verifyRows } from "../../../lib/fleet/segment/mod.ts";
import { HttpTarget } from "../../../lib/fleet/ship/mod.ts";
import { makeReport } from "../../../lib/fleet/ship/report.ts";
import { readHeads, readRowsAfter } from "../../../lib/ledger/read/mod.ts";
import type { SigningKey } from "../../../lib/release/mod.ts";
import { openSigned } from "../../../lib/release/signing/mod.ts";
import { START_HEADS } from "../../../lib/ledger/mod.ts";
import { formatLine } from "../../../lib/fleet/segment/schema.ts";
import { newKey, record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../../helper/fleet.ts";

const DAY_MS = 86_400_000;
const WORD = "private-host-of-ann";

/** A home of ann with a session, and a machine of bob with another one. */
async function start() {
  const fleet = await TestFleet.start();
  const root = await fleet.machine("laptop-1", "payments");
  const bob = await fleet.machine("laptop-2", "search");
  const ann = await newKey();
  await enrolHome(fleet.store, { certificate: await makeHomeCertificate(root, ann.publicKey, "ann") });
  await send(fleet, ann, SESSION_A);
  await send(fleet, bob, SESSION_B);
  return { fleet, ann, bob };
}

/** Sends a session in two segments, and its end. */
async function send(fleet: TestFleet, key: SigningKey, session: string): Promise<void> {
  const path = `${fleet.dir}/${session}.db`;
  const shipper = fleet.shipper(key);
  for (let part = 0; part < 2; part++) {
    await record(
      path,
      session,
      Array.from({ length: 3 }, (_, at) => ({ event: webEvent(session, WORD, `/${part}/${at}`) })),
    );
    await shipper.ship(session, path);
  }
  const heads = await readHeads(path);
  await shipper.end(session, heads, false);
  const target = new HttpTarget(fleet.url, key);
  await target.report(
    await makeReport(key, {
      kind: "alive",
      sbx: "1",
      sessions: [{ session_id: session, heads, running: false }],
    }),
  );
}

/** Files of a store that have a text, also compressed in segments. */
async function filesWith(dir: string, text: string): Promise<string[]> {
  const found: string[] = [];
  const storeKey = await readStoreKey(dir);
  const keys = new Map<string, string>();
  const walk = async (folder: string): Promise<void> => {
    for await (const { name, isDirectory } of Deno.readDir(folder)) {
      const path = `${folder}/${name}`;
      if (isDirectory) await walk(path);
      else if (name.endsWith(".seg")) {
        const { parsePublicKeys } = await import("../../../lib/release/signing/mod.ts");
        const id = path.split("/").at(-3)!;
        const machine = keys.get(id) ??
          JSON.parse(await Deno.readTextFile(`${dir}/machines/${id}.json`)).public_key;
        keys.set(id, machine);
        const opened = await openStored(
          await Deno.readFile(path),
          () => parsePublicKeys(machine, "x")[0],
          storeKey,
        );
        if (verifyRows(opened).some((line) => formatLine(line).includes(text))) found.push(path);
      } else if ((await Deno.readTextFile(path)).includes(text)) found.push(path);
    }
  };
  await walk(dir);
  return found;
}

Deno.test("a person's rows and name go, the chain still verifies, and the statement says what went", async () => {
  const { fleet, ann } = await start();
  await using _ = fleet;
  const { store } = fleet;
  const findings = `${store}/findings/pack`;
  await Deno.mkdir(findings, { recursive: true });
  const finding = { machine_id: ann.publicKey.id, session_id: SESSION_A, rule_id: "r", host: WORD };
  await Deno.writeTextFile(
    `${findings}/1.jsonl`,
    [{ pack_hash: "1" }, finding, { ...finding, session_id: SESSION_B, host: "-" }].map((line) =>
      JSON.stringify(line)
    ).join("\n") + "\n",
  );
  const part = `${store}/parts/aa`;
  await Deno.mkdir(part, { recursive: true });
  await Deno.writeTextFile(
    `${part}/segments.json`,
    JSON.stringify([`${ann.publicKey.id}/${SESSION_A}/x.seg`]),
  );
  await Deno.writeTextFile(`${part}/events.parquet`, WORD);
  const before = await checkFleet(store);
  assert(before.ok, JSON.stringify(before));

  const subject = await findSubject(store, { person: "ann" });
  assertEquals(subject.sessions, [{ machine_id: ann.publicKey.id, session_id: SESSION_A }]);
  const erasure = (await erase(store, { by: "dpo", cause: "request", reason: "case 7", ...subject }))!;
  assertEquals(erasure.sessions, [
    { machine_id: ann.publicKey.id, session_id: SESSION_A, segments: 2, events: 6, outcomes: 6, journal: 0 },
  ]);
  assertEquals([erasure.findings, erasure.parts, erasure.unverified], [1, 1, []]);
  assertEquals((await filesWith(store, WORD)).map((path) => path.includes(SESSION_B)), [true, true]);
  assertEquals(await filesWith(store, "ann@"), []);

  const after = await checkFleet(store);
  assertEquals([after.ok, after.events, after.problems], [true, 12, []]);
  assertEquals(after.machines.flatMap(({ sessions }) => sessions.map(({ state }) => state)), [
    "complete",
    "complete",
  ]);
  const statement = await Deno.readFile(`${store}/statements/${erasure.id}.json`);
  const signed = await openSigned(statement, [(await readStoreKey(store))!], "the statement");
  const { entries } = await readLog(store);
  const entry = entries.find(({ kind }) => kind === "erased");
  assert(signed.key.trusted && entry?.kind === "erased" && entry.statement === blake3(signed.text));
  // Nothing is left of it, and a second one makes no statement.
  await assertRejects(() => findSubject(store, { person: "ann" }), SbxError, "no home of");
  assertEquals(await erase(store, { by: "dpo", cause: "request", sessions: subject.sessions }), undefined);
});

Deno.test("a machine whose session was erased sends no row again, and goes on", async () => {
  const { fleet, ann } = await start();
  await using _ = fleet;
  await erase(fleet.store, {
    by: "dpo",
    cause: "request",
    sessions: (await findSubject(fleet.store, { session: SESSION_A })).sessions,
  });
  // It lost its cursor.
  const again = fleet.shipper(ann, { dir: `${fleet.dir}/other` });
  const path = `${fleet.dir}/${SESSION_A}.db`;
  assertEquals((await again.ship(SESSION_A, path)).events, 0);
  await record(path, SESSION_A, [{ event: webEvent(SESSION_A, "later.example.com") }]);
  assertEquals((await again.ship(SESSION_A, path)).events, 1);
  const { machines } = await checkFleet(fleet.store);
  const mine = machines.find(({ machine_id }) => machine_id === ann.publicKey.id)!;
  assertEquals(mine.sessions.map(({ events }) => events), [7]);
  assertEquals((await filesWith(fleet.store, "later.example.com")).length, 1);
});

Deno.test("a machine cannot send erased rows, and a store's erasure cannot be forged or moved", async () => {
  const { fleet, ann, bob } = await start();
  await using _ = fleet;
  const { store } = fleet;
  await erase(store, {
    by: "dpo",
    cause: "request",
    sessions: (await findSubject(store, { session: SESSION_A })).sessions,
  });
  const folder = (key: SigningKey, session: string) => `${store}/segments/${key.publicKey.id}/${session}`;
  const names = (await Array.fromAsync(Deno.readDir(folder(ann, SESSION_A)))).map(({ name }) => name).sort();
  const redacted = await Deno.readFile(`${folder(ann, SESSION_A)}/${names[0]}`);
  // A receiver opens what a machine sends without the store's key.
  const sent = await openSegment(redacted, () => ann.publicKey);
  await assertRejects(
    () => Promise.resolve().then(() => verifyRows(sent)),
    SbxError,
    "differ from the signed ones",
  );

  // A row of the segment of bob with the redaction of ann's.
  const rest = redacted.subarray(redacted.indexOf(10) + 1);
  const theirs = `${folder(bob, SESSION_B)}/${names[0]}`;
  const bytes = await Deno.readFile(theirs);
  const header = bytes.subarray(0, bytes.indexOf(10) + 1);
  await Deno.writeFile(theirs, new Uint8Array([...header, ...rest]));
  const moved = await checkFleet(store);
  assertMatch(
    moved.machines.flatMap(({ problems }) => problems).join(),
    /its redaction is of another segment/,
  );
  await Deno.writeFile(theirs, bytes);

  // Signed by another key.
  const { redactSegment } = await import("../../../lib/fleet/segment/mod.ts");
  const opened = await openStored(bytes, () => bob.publicKey);
  const forged = (await redactSegment(bytes, opened, () => true, await newKey(), crypto.randomUUID()))!;
  await Deno.writeFile(theirs, forged.bytes);
  assertMatch(
    (await checkFleet(store)).machines.flatMap(({ problems }) => problems).join(),
    /the store did not sign for it/,
  );

  // A machine's own segment with an erased row.
  const rows = await readRowsAfter(`${fleet.dir}/${SESSION_A}.db`, START_HEADS);
  const text = new TextDecoder().decode(rows.events).split("\n");
  const hash = text[0].slice(2, 66);
  const lacking = await makeSegment(
    { ...rows, events: new TextEncoder().encode([`x\t${hash}\t${hash}`, ...text.slice(1)].join("\n")) },
    { key: ann, session_id: SESSION_A },
  ).catch((error) => error);
  assert(lacking instanceof Uint8Array);
  const own = await openStored(lacking as Uint8Array, () => ann.publicKey);
  await assertRejects(
    () => Promise.resolve().then(() => verifyRows(own)),
    SbxError,
    "no store signed for it",
  );
});

Deno.test("segments that do not verify are evidence: they stay, and others are erased", async () => {
  const { fleet, ann, bob } = await start();
  await using _ = fleet;
  const { store } = fleet;
  const folder = `${store}/segments/${ann.publicKey.id}/${SESSION_A}`;
  const [{ name }] = await Array.fromAsync(Deno.readDir(folder));
  const bytes = await Deno.readFile(`${folder}/${name}`);
  bytes[bytes.length - 5] ^= 1;
  await Deno.writeFile(`${folder}/${name}`, bytes);
  const sessions = [
    { machine_id: ann.publicKey.id, session_id: SESSION_A },
    { machine_id: bob.publicKey.id, session_id: SESSION_B },
  ];
  const erasure = (await erase(store, { by: "dpo", cause: "request", sessions }))!;
  assertEquals(erasure.unverified, [sessions[0]]);
  assertEquals(erasure.sessions.map(({ segments }) => segments), [1, 2]);
  assertEquals(await Deno.readFile(`${folder}/${name}`), bytes);
});

Deno.test("retention erases by team and kind, counted from the arrival, and an outcome goes with its event", async () => {
  const { fleet, ann } = await start();
  await using _ = fleet;
  const { store } = fleet;
  const now = Date.now();
  await assertRejects(() => applyRetention(store, { by: "cron" }), SbxError, "retention.toml cannot be read");
  await Deno.writeTextFile(
    `${store}/retention.toml`,
    '[[keep]]\nteam = "payments"\nkind = "http"\ndays = 30\nhours = 1\n',
  );
  await assertRejects(() => applyRetention(store, { by: "cron" }), SbxError, "hours");
  await Deno.writeTextFile(
    `${store}/retention.toml`,
    '[[keep]]\nteam = "payments"\nkind = "dns"\ndays = 1\n[[keep]]\nteam = "payments"\nkind = "http"\ndays = 30\n',
  );
  assertEquals((await applyRetention(store, { by: "cron", now: now + 10 * DAY_MS })).erasure, undefined);
  const trial = await applyRetention(store, { by: "cron", now: now + 31 * DAY_MS, isTrial: true });
  assertEquals([trial.segments, trial.erasure], [2, undefined]);
  const { erasure } = await applyRetention(store, { by: "cron", now: now + 31 * DAY_MS });
  assertEquals(erasure!.sessions, [
    { machine_id: ann.publicKey.id, session_id: SESSION_A, segments: 2, events: 6, outcomes: 6, journal: 0 },
  ]);
  assertEquals(erasure!.cause, "retention");
  // Names stay, the other team's rows too, and nothing is read again the next day.
  assertEquals((await filesWith(store, WORD)).length, 2);
  const next = await applyRetention(store, { by: "cron", now: now + 32 * DAY_MS });
  assertEquals([next.segments, next.erasure], [0, undefined]);
  const check = await checkFleet(store);
  assertEquals([check.ok, check.events], [true, 12]);
});

Deno.test("an erasure that was killed is ended by the next one", async () => {
  const { fleet, ann } = await start();
  await using _ = fleet;
  const { store } = fleet;
  const sessions = [{ machine_id: ann.publicKey.id, session_id: SESSION_A }];
  const stop = { name: "server", erase: () => Promise.reject(new SbxError("fleet.unavailable", "away")) };
  await assertRejects(
    () => erase(store, { by: "dpo", cause: "request", sessions, tables: stop }),
    SbxError,
    "away",
  );
  const asked: unknown[] = [];
  const tables = {
    name: "server",
    erase: (session: unknown, rows: unknown) => Promise.resolve(void asked.push([session, rows])),
  };
  const erasure = await erase(store, { by: "dpo", cause: "request", sessions, tables });
  assertEquals(erasure!.server, "server");
  assertEquals(asked, [[sessions[0], { events: [[1, 6]], outcomes: [[1, 6]], journal: [] }]]);
  assertEquals(await erase(store, { by: "dpo", cause: "request", sessions }), undefined);
});

Deno.test("an export has all rows of a person, signed, and the log has its statement without a name", async () => {
  const { fleet, ann } = await start();
  await using _ = fleet;
  const { store } = fleet;
  const to = `${fleet.dir}/export`;
  const subject = await findSubject(store, { person: "ann" });
  const exported = await exportSubject(store, subject, { to, by: "dpo" });
  assertEquals(exported.sessions.map(({ rows, erased }) => [rows, erased]), [[12, 0]]);
  assertMatch(exported.machines[0].name, /^ann@laptop-1/);
  const text = await Deno.readTextFile(`${to}/${exported.sessions[0].file}`);
  assertEquals(blake3(text), exported.sessions[0].blake3);
  assertEquals(
    text.trimEnd().split("\n").filter((line) => JSON.parse(line).event?.http.request.host === WORD).length,
    6,
  );
  const signed = await openSigned(
    await Deno.readFile(`${to}/export.json`),
    [(await readStoreKey(store))!],
    "it",
  );
  assertEquals([signed.key.trusted, JSON.parse(signed.text).id], [true, exported.id]);
  assertEquals((await Deno.stat(`${to}/export.json`)).mode! & 0o777, 0o600);
  const statement = await Deno.readTextFile(`${store}/statements/${exported.id}.json`);
  assert(!atob(JSON.parse(statement).payload).includes("ann@"));
  assertEquals((await checkFleet(store)).ok, true);
  await assertRejects(() => exportSubject(store, subject, { to, by: "dpo" }), SbxError, "exists");
  assert(ann);
});
