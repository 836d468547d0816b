import { assert, assertEquals, assertRejects, assertThrows } from "@std/assert";
import { createClient } from "@libsql/client/sqlite3";
import { SbxError } from "../../lib/error/mod.ts";
import { type Event, newEventId } from "../../lib/event/mod.ts";
import { Ledger, readEvents, readFindings, readWhy, verifyLedger } from "../../lib/ledger/mod.ts";

const SESSION = "session-1";

function execEvent(command = "ls -l"): Event {
  return {
    schema_version: 1,
    common: {
      event_id: newEventId(),
      event_type: "process.exec",
      session_id: SESSION,
      vm_id: "vm-1",
      profile_id: "code",
      profile_revision: "1.0.0",
      timestamp_unix_ms: 1_700_000_000_000,
      sequence: 0,
      source_engine: "process",
      enforceability: "inline_blockable",
      actor: "vm",
      labels: {},
    },
    process: {
      activity: { operation: "exec", executable: "/bin/ls", command, argv: command.split(" "), cwd: "/root" },
    },
  };
}

function dnsEvent(qname: string): Event {
  const { process: _, ...event } = execEvent();
  return {
    ...event,
    common: { ...event.common, event_id: newEventId(), event_type: "dns.query", source_engine: "network" },
    dns: { request: { qname, qtype: "A", transport: "udp" } },
  };
}

async function inFolder(run: (path: string) => Promise<void>): Promise<void> {
  const folder = await Deno.makeTempDir();
  try {
    await run(`${folder}/session.db`);
  } finally {
    await Deno.remove(folder, { recursive: true });
  }
}

async function filled(path: string, count: number): Promise<Event[]> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  const events = Array.from({ length: count }, (_, at) => execEvent(`echo ${at}`));
  for (const event of events) ledger.append({ event });
  return events;
}

async function sql(path: string, statement: string): Promise<void> {
  const client = createClient({ url: `file:${path}` });
  await client.executeMultiple(statement);
  client.close();
}

Deno.test("a ledger keeps events in order, numbers them and proves it", () =>
  inFolder(async (path) => {
    const events = await filled(path, 1203);
    assertEquals(events.map(({ common }) => common.sequence), events.map((_, at) => at + 1));
    assertEquals(await verifyLedger(path), { ok: true, events: 1203 });
    const first = await readEvents(path, { limit: 1000 });
    const second = await readEvents(path, { limit: 1000, cursor: first.next_cursor });
    assertEquals([...first.events, ...second.events], events);
    assertEquals(second.next_cursor, undefined);
  }));

Deno.test("a ledger that is opened again continues its chain", () =>
  inFolder(async (path) => {
    await filled(path, 3);
    const again = await filled(path, 2);
    assertEquals(again.map(({ common }) => common.sequence), [4, 5]);
    assertEquals(await verifyLedger(path), { ok: true, events: 5 });
  }));

Deno.test("a ledger refuses another session's events", () =>
  inFolder(async (path) => {
    await filled(path, 1);
    const error = await assertRejects(() => Ledger.open(path, { sessionId: "another" }), SbxError);
    assertEquals(error.code, "ledger.conflict");
  }));

Deno.test("events are filtered by family, by denial and by time", () =>
  inFolder(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const blocked = execEvent("rm -rf /");
    const late = { ...dnsEvent("example.com") };
    late.common.timestamp_unix_ms += 5000;
    ledger.append({ event: execEvent() });
    ledger.append({ event: blocked, decision: { decision: "block", rule: { id: "no-rm" } } });
    ledger.append({ event: late, decision: { decision: "allow" } });
    await ledger.close();
    const ids = async (filter: Parameters<typeof readEvents>[1]) =>
      (await readEvents(path, filter)).events.map(({ common }) => common.event_id);
    assertEquals(await ids({ family: "dns" }), [late.common.event_id]);
    assertEquals(await ids({ denied: true }), [blocked.common.event_id]);
    assertEquals(await ids({ since: late.common.timestamp_unix_ms }), [late.common.event_id]);
    assertEquals((await readEvents(path, { denied: true })).events[0].rule_id, "no-rm");
    assertEquals(
      (await assertRejects(() => readEvents(path, { cursor: "x" }), SbxError)).code,
      "request.invalid",
    );
  }));

Deno.test("decisions, findings, approvals and bodies are kept with their event", () =>
  inFolder(async (path) => {
    const event = execEvent();
    const { event_id } = event.common;
    const finding = { finding_id: `finding-${event_id}-r`, event_id, rule_id: "r", severity: "high" };
    const decision = { event_id, decision: "block", rule: { id: "r", layer: "corp" } };
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({
      event,
      decision,
      findings: [finding],
      rows: [{ table: "body_blobs", bytes: new Uint8Array([1, 2, 3]), content_type: "a/b" }],
    });
    ledger.add({ rows: [{ table: "approvals", record: { ask_id: "ask-1", event_id } }] });
    await ledger.close();
    assertEquals(await readWhy(path, event_id), { event, record: decision, findings: [finding] });
    assertEquals(await readFindings(path), [finding]);
    assertEquals(await verifyLedger(path), { ok: true, events: 1 });
    assertEquals(
      (await assertRejects(() => readWhy(path, "0".repeat(12)), SbxError)).code,
      "event.not_found",
    );
  }));

Deno.test("the family tables show the columns of their events", () =>
  inFolder(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent("ls -l") });
    ledger.append({ event: dnsEvent("example.com") });
    await ledger.close();
    const client = createClient({ url: `file:${path}` });
    const rows = async (table: string) => (await client.execute(`SELECT * FROM ${table}`)).rows;
    const [exec] = await rows("exec_events");
    assertEquals([exec.sequence, exec.executable, exec.command, exec.argv], [
      1,
      "/bin/ls",
      "ls -l",
      '["ls","-l"]',
    ]);
    assertEquals((await rows("dns_events")).map(({ sequence, qname }) => [sequence, qname]), [[
      2,
      "example.com",
    ]]);
    for (
      const table of [
        "net_events",
        "model_calls",
        "mcp_calls",
        "fs_events",
        "substitution_events",
        "decisions",
      ]
    ) {
      assertEquals((await rows(table)).length, 0, table);
    }
    client.close();
  }));

const TAMPERINGS: [string, string, number][] = [
  [
    "the event",
    "UPDATE security_events SET event = replace(event, 'echo 7', 'echo 8') WHERE sequence = 8",
    8,
  ],
  ["an event's hash", "UPDATE security_events SET hash = 'x' || substr(hash, 2) WHERE sequence = 4", 4],
  [
    "a previous hash",
    "UPDATE security_events SET prev_hash = lower(hex(randomblob(32))) WHERE sequence = 2",
    2,
  ],
  ["an id", "UPDATE security_events SET event_id = '000000000000' WHERE sequence = 6", 6],
  ["a type", "UPDATE security_events SET event_type = 'dns.query' WHERE sequence = 6", 6],
  ["a decision without record", "UPDATE security_events SET decision = 'allow' WHERE sequence = 3", 3],
  ["a missing event", "DELETE FROM security_events WHERE sequence = 5", 5],
  [
    "two events swapped",
    "UPDATE security_events SET sequence = CASE sequence WHEN 2 THEN -3 WHEN 3 THEN -2 END WHERE sequence IN (2, 3); UPDATE security_events SET sequence = -sequence WHERE sequence < 0",
    2,
  ],
];
for (const [what, statement, sequence] of TAMPERINGS) {
  Deno.test(`verify names the first bad event after tampering with ${what}`, () =>
    inFolder(async (path) => {
      await filled(path, 10);
      await sql(path, statement);
      const verification = await verifyLedger(path);
      assertEquals([verification.ok, verification.events, verification.first_bad?.sequence], [
        false,
        sequence - 1,
        sequence,
      ]);
    }));
}

Deno.test("verify notices a changed decision record", () =>
  inFolder(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    ledger.append({ event: execEvent(), decision: { decision: "block", rule: { id: "r" } } });
    await ledger.close();
    await sql(
      path,
      "UPDATE security_events SET decision = 'allow', record = replace(record, 'block', 'allow')",
    );
    assertEquals((await verifyLedger(path)).first_bad?.sequence, 1);
  }));

Deno.test("verify notices events cut off the end of a closed ledger", () =>
  inFolder(async (path) => {
    await filled(path, 10);
    await sql(path, "DELETE FROM security_events WHERE sequence > 8");
    const { ok, events } = await verifyLedger(path);
    assertEquals([ok, events], [false, 8]);
  }));

Deno.test("verify notices a flipped bit anywhere in a closed ledger", () =>
  inFolder(async (path) => {
    await filled(path, 60);
    const good = await Deno.readFile(path);
    assert(good.length > 30_000);
    for (let at = 0; at < good.length; at += 997) {
      const bytes = good.slice();
      bytes[at] ^= 1 << (at % 8);
      await Deno.writeFile(path, bytes);
      const { ok, first_bad } = await verifyLedger(path);
      assertEquals([ok, typeof first_bad?.reason], [false, "string"], `bit ${at % 8} of byte ${at}`);
    }
  }));

Deno.test("a full ledger fails closed and keeps what it has", () =>
  inFolder(async (path) => {
    const errors: SbxError[] = [];
    const maxBytes = 800_000;
    const ledger = await Ledger.open(path, {
      sessionId: SESSION,
      maxBytes,
      onError: (error) => errors.push(error),
    });
    let appended = 0;
    for (; appended < 2000 && !errors.length; appended++) {
      ledger.append({ event: execEvent("x".repeat(200)) });
      if (appended % 100 === 99) await ledger.flush().catch(() => {});
    }
    assertEquals(errors.map(({ code }) => code), ["ledger.unavailable"]);
    const refused = assertThrows(() => ledger.append({ event: execEvent() }), SbxError);
    assertEquals(refused.code, "ledger.unavailable");
    await assertRejects(() => ledger.close(), SbxError);
    const { ok, events } = await verifyLedger(path);
    assert(ok && events > 0 && events < appended);
  }));

Deno.test("a ledger that could not write goes on, without a gap, once it can", () =>
  inFolder(async (path) => {
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const other = createClient({ url: `file:${path}` });
    const lock = await other.transaction("write");
    ledger.append({ event: execEvent() });
    assertEquals((await assertRejects(() => ledger.flush(), SbxError)).code, "ledger.unavailable");
    assertThrows(() => ledger.append({ event: execEvent() }), SbxError);
    await lock.rollback();
    other.close();
    await ledger.flush();
    ledger.append({ event: execEvent() });
    await ledger.close();
    assertEquals(await verifyLedger(path), { ok: true, events: 2 });
  }));

Deno.test("a ledger killed in the middle of writing verifies", () =>
  inFolder(async (path) => {
    const script = `
      import { Ledger } from ${JSON.stringify(new URL("../../lib/ledger/mod.ts", import.meta.url).href)};
      const ledger = await Ledger.open(${JSON.stringify(path)}, { sessionId: "${SESSION}" });
      const event = ${JSON.stringify(execEvent())};
      for (let at = 0; ; at++) {
        ledger.append({ event: structuredClone(event) });
        if (at % 700 === 699) { await ledger.flush(); console.log(at); }
      }`;
    const child = new Deno.Command(Deno.execPath(), {
      args: ["eval", `--config=${new URL("../../deno.json", import.meta.url).pathname}`, script],
      stdout: "piped",
      stderr: "inherit",
    }).spawn();
    const reader = child.stdout.getReader();
    await reader.read();
    await reader.read();
    child.kill("SIGKILL");
    await child.status;
    await reader.cancel();
    const { ok, events, first_bad } = await verifyLedger(path);
    assertEquals([ok, first_bad], [true, undefined]);
    assert(events >= 700);
    await filled(path, 1);
    assertEquals((await verifyLedger(path)).events, events + 1);
  }));

Deno.test("what is no ledger is named", () =>
  inFolder(async (path) => {
    assertEquals((await assertRejects(() => verifyLedger(path), SbxError)).code, "ledger.not_found");
    await Deno.writeTextFile(path, "no database\n".repeat(400));
    assertEquals((await verifyLedger(path)).ok, false);
    assertEquals((await assertRejects(() => readEvents(path), SbxError)).code, "ledger.invalid");
  }));
