/** Collecting over the network: no row is lost or stored twice, whatever the server does. */
import { assert, assertEquals, assertRejects, assertStringIncludes } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import {
  collect,
  type CollectOptions,
  collectRest,
  startCollecting,
  uncollectedMark,
} from "../../../lib/ledger/read/mod.ts";
import { limitChild } from "../../helper/child.ts";
import { HranaServer } from "../../helper/hrana.ts";
import { execEvent, runSql, select, SESSION, withLedgerPath } from "../../helper/ledger.ts";
import { fromRoot } from "../../helper/repo.ts";

const TOKEN = "a-token-of-the-collecting-server";

/** Writes a ledger of `count` events with outcomes, every tenth with a finding. */
async function writeDecisions(path: string, count: number): Promise<void> {
  await using ledger = await Ledger.open(path, { sessionId: SESSION });
  for (let at = 0; at < count; at++) {
    const event = execEvent(`echo ${at}`);
    const { event_id } = event.common;
    const finding = { finding_id: `finding-${event_id}-r`, event_id, rule_id: "r" };
    ledger.append({ event, decision: { decision: "ask" }, findings: at % 10 ? [] : [finding] });
    ledger.end({ event_id, decision: { decision: at % 2 ? "block" : "allow" }, duration_ms: at });
  }
}

/** Asserts that the server has every row of the ledger once, unchanged. */
async function assertCollected(path: string, server: string, count: number): Promise<void> {
  const pairs = [
    ["entries", "collected_events", "sequence"],
    ["outcomes", "collected_outcomes", "number"],
    ["findings", "collected_findings", "finding_id"],
  ];
  for (const [from, to, key] of pairs) {
    const hashes = (rows: Awaited<ReturnType<typeof select>>) => rows.map((row) => `${row[key]} ${row.hash}`);
    const here = hashes(await select(path, `SELECT ${key}, hash FROM ${from} ORDER BY ${key}`));
    assertEquals(hashes(await select(server, `SELECT ${key}, hash FROM ${to} ORDER BY ${key}`)), here);
    assertEquals(here.length, from === "findings" ? Math.ceil(count / 10) : count);
  }
  const [first] = await select(server, "SELECT * FROM collected_outcomes WHERE number = 2");
  assertEquals([first.session_id, first.decision, typeof first.number], [SESSION, "block", "number"]);
}

Deno.test("thousands of rows reach a server that requires a token", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 3210);
    const file = `${path}.server`;
    await using server = new HranaServer({ file, token: TOKEN });
    const options = { path, sessionId: SESSION, url: server.url, authToken: TOKEN };
    assertEquals(await collect(options), 3210 + 3210 + 321);
    assertEquals(await collect(options), 0);
    await assertCollected(path, file, 3210);
    assertEquals(server.served.refused, 0);
  }));

Deno.test("a statement is one request, which leaves no stream open", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 20);
    let statements = 0;
    const before = () => void statements++;
    await using server = new HranaServer({ file: `${path}.server`, token: TOKEN, before });
    await collect({ path, sessionId: SESSION, url: server.url, authToken: TOKEN });
    assertEquals([server.served.good, server.open.size], [statements, 0]);
  }));

Deno.test("a refused token is named whatever the answer says, and the answer is not kept", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 1);
    const answers = [
      () => Response.json({ message: "not you", code: "AUTH" }, { status: 403 }),
      () => Response.json("not you", { status: 401 }),
      (request: Request) => new Response(request.headers.get("authorization"), { status: 401 }),
    ];
    for (const refuse of answers) {
      await using server = new HranaServer({ file: `${path}.server`, token: "another", refuse });
      const error = await assertRejects(
        () => collect({ path, sessionId: SESSION, url: server.url, authToken: TOKEN }),
        SbxError,
      );
      assertStringIncludes(error.hint!, "ledger.auth_token_file");
      assert(!Deno.inspect(error).includes(TOKEN));
    }
  }));

Deno.test("a redirect is not followed, and an endless answer not read", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 1);
    await using other = new HranaServer({ file: `${path}.other`, token: TOKEN });
    const endless = () => {
      const piece = new TextEncoder().encode(" ".repeat(2 ** 20));
      let left = 512;
      return new ReadableStream({
        pull: (controller) =>
          left-- ? controller.enqueue(piece) : controller.error(new Error("all of it was read")),
      });
    };
    const answers = [
      ...[301, 302, 307, 308].map((status) => () => {
        return new Response(null, { status, headers: { location: `${other.url}/v2/pipeline` } });
      }),
      () => new Response(endless(), { headers: { "content-type": "application/json" } }),
      () => new Response(endless(), { status: 500 }),
    ];
    for (const refuse of answers) {
      await using server = new HranaServer({ file: `${path}.server`, token: "another", refuse });
      const error = await assertRejects(
        () => collect({ path, sessionId: SESSION, url: server.url, authToken: TOKEN }),
        SbxError,
      );
      assertEquals(error.code, "ledger.collector.unavailable");
      assert(!Deno.inspect(error).includes("all of it was read"));
    }
    assertEquals(other.served, { good: 0, refused: 0 });
  }));

Deno.test("a ledger that is damaged is not the server's fault, and is not sent forever", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 3);
    await runSql(path, "UPDATE entries SET sequence = 4611686018427387905 WHERE sequence = 3");
    await using server = new HranaServer({ file: `${path}.server`, token: TOKEN });
    const error = await assertRejects(
      () => collect({ path, sessionId: SESSION, url: server.url, authToken: TOKEN }),
      SbxError,
    );
    assertEquals(error.code, "ledger.invalid");
  }));

Deno.test("a wrong token is reported, and nothing is sent with it", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 20);
    const file = `${path}.server`;
    await using server = new HranaServer({ file, token: TOKEN });
    const { host } = new URL(server.url);
    for (const authToken of [undefined, "another"]) {
      const error = await assertRejects(
        () => collect({ path, sessionId: SESSION, url: server.url, authToken }),
        SbxError,
      );
      assertEquals(error.code, "ledger.collector.unavailable");
      assertEquals(error.message, `the collecting server ${host} does not accept events`);
      assertStringIncludes(error.hint!, "ledger.auth_token_file");
    }
    assertEquals([server.served.good, await select(file, "SELECT * FROM sqlite_schema")], [0, []]);
    await collect({ path, sessionId: SESSION, url: server.url, authToken: TOKEN });
    await assertCollected(path, file, 20);
  }));

Deno.test("lost answers, before or after a batch is stored, neither lose nor double a row", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 1500);
    const file = `${path}.server`;
    let inserts = 0;
    const breaking = (at: number[]) => (sql: string) => {
      if (sql.startsWith("INSERT") && at.includes(inserts)) throw new Error("broken off");
    };
    const before = (sql: string) => {
      if (sql.startsWith("INSERT")) inserts++;
      breaking([2, 5])(sql);
    };
    await using server = new HranaServer({ file, token: TOKEN, before, after: breaking([3, 4, 8]) });
    const options = { path, sessionId: SESSION, url: server.url, authToken: TOKEN };
    let failures = 0;
    for (;;) {
      try {
        await collect(options);
        break;
      } catch (error) {
        assertEquals((error as SbxError).code, "ledger.collector.unavailable");
        failures++;
      }
    }
    assertEquals(failures, 5);
    await assertCollected(path, file, 1500);
  }));

Deno.test("a server killed repeatedly in the middle of batches has every row once", () =>
  withLedgerPath(async (path) => {
    await writeDecisions(path, 2500);
    const file = `${path}.server`;
    let port = "0";
    let failures = 0;
    for (let life = 0;; life++) {
      const child = limitChild(new Deno.Command(Deno.execPath(), {
        args: ["run", "-A", "--no-check", "--quiet", fromRoot("tests/helper/hrana.ts"), port, file, TOKEN],
        cwd: fromRoot(""),
        stdout: "piped",
        stderr: "inherit",
      }).spawn());
      const lines = child.stdout.pipeThrough(new TextDecoderStream()).getReader();
      port = (await lines.read()).value!.split("\n")[0];
      // Each of its first lives ends during an insert.
      const killed = life < 3 && (async () => {
        for (let inserts = 0; inserts < 2;) {
          inserts += ((await lines.read()).value ?? "").split("INSERT").length - 1;
        }
        child.kill("SIGKILL");
      })();
      const options = { path, sessionId: SESSION, url: `http://127.0.0.1:${port}`, authToken: TOKEN };
      const done = await collect(options).then(() => true, ({ code }) => {
        assertEquals(code, "ledger.collector.unavailable");
        return false;
      });
      await killed;
      if (!killed) child.kill("SIGKILL");
      await child.status;
      await lines.cancel();
      if (done) break;
      failures++;
    }
    assertEquals(failures, 3);
    await assertCollected(path, file, 2500);
  }));

Deno.test("a running session is collected, also by a slow server, and the rest is sent later", () =>
  withLedgerPath(async (path) => {
    const file = `${path}.server`;
    const gate = Promise.withResolvers<void>();
    const stored = Promise.withResolvers<void>();
    const before = (sql: string) => sql.startsWith("INSERT") ? gate.promise : undefined;
    const after = (sql: string) => {
      if (sql.includes("INTO collected_outcomes")) stored.resolve();
    };
    const ledger = await Ledger.open(path, { sessionId: SESSION });
    const append = (count: number) => {
      for (let at = 0; at < count; at++) {
        const event = execEvent();
        ledger.append({ event });
        ledger.end({ event_id: event.common.event_id, duration_ms: at });
      }
    };
    append(50);
    await ledger.flush();
    await using server = new HranaServer({ file, token: TOKEN, before, after });
    const target: CollectOptions = { path, sessionId: SESSION, url: server.url, authToken: TOKEN };
    const collecting = startCollecting(target);
    // The ledger does not wait for the slow server.
    append(450);
    await ledger.flush();
    assertEquals(ledger.sequence, 500);
    gate.resolve();
    await stored.promise;
    await collecting.stop();
    append(100);
    await ledger.close();

    await Deno.writeTextFile(`${path}.token`, `${TOKEN}\n`);
    await Deno.writeTextFile(
      uncollectedMark(path),
      JSON.stringify({ url: server.url, auth_token_file: `${path}.token` }),
    );
    await collectRest(path, SESSION);
    await assertRejects(() => Deno.stat(uncollectedMark(path)), Deno.errors.NotFound);
    for (const [table, key] of [["events", "sequence"], ["outcomes", "number"]]) {
      const [row] = await select(file, `SELECT count(*) AS n, max(${key}) AS last FROM collected_${table}`);
      assertEquals([row.n, row.last], [600, 600]);
    }
  }));

Deno.test("an absent server is found again later, and one that has everything gets no requests", () =>
  withLedgerPath(async (path) => {
    const file = `${path}.server`;
    await writeDecisions(path, 30);
    const port = freePort();
    const url = `http://127.0.0.1:${port}`;
    const failed = Promise.withResolvers<void>();
    const collecting = startCollecting(
      { path, sessionId: SESSION, url, authToken: TOKEN },
      () => failed.resolve(),
    );
    await failed.promise;
    const back = Promise.withResolvers<void>();
    const after = (sql: string) => sql.includes("INTO collected_findings") && back.resolve() || undefined;
    await using server = new HranaServer({ file, token: TOKEN, port, after });
    await back.promise;
    // Some rounds later it has got no more than the requests of the first one.
    const asked = server.served.good;
    await new Promise((resolve) => setTimeout(resolve, 2500));
    await collecting.stop();
    await assertCollected(path, file, 30);
    assert(server.served.good - asked <= 1, `${server.served.good - asked} requests with nothing to send`);
  }));

function freePort(): number {
  using listener = Deno.listen({ hostname: "127.0.0.1", port: 0 });
  return listener.addr.port;
}
