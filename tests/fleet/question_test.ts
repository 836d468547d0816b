/** Every prepared question, on both engines, over the same store: the same answers, and the right ones. */
import { assert, assertEquals } from "@std/assert";
import { ClickHouseClient, parseClickHouse } from "../../lib/fleet/clickhouse/mod.ts";
import { DuckDb, type Row } from "../../lib/fleet/engine.ts";
import { ask, grafanaDashboard, QUESTIONS, viewName, viewStatements } from "../../lib/fleet/question/mod.ts";
import { listMachines } from "../../lib/fleet/receive/mod.ts";
import {
  ClickHouseLoader,
  openRecords,
  parquetTable,
  schemaStatements,
  writeTables,
} from "../../lib/fleet/table/mod.ts";
import { ClickHouseProcess } from "../helper/clickhouse_server.ts";
import { eventCommon } from "../helper/event.ts";
import { record, SESSION_A, SESSION_B, TestFleet, webEvent } from "../helper/fleet.ts";
import type { Event } from "../../lib/event/mod.ts";
import type { Parsed } from "../helper/json.ts";

const REF = `credential:blake3:${"a".repeat(64)}`;

function credentialEvent(session_id: string): Event {
  return {
    schema_version: 1,
    common: eventCommon("credential.substitution", { session_id }),
    credential: {
      substitution: {
        provider: "github",
        credential_ref: REF,
        host: "api.github.com",
        location: "authorization",
        outcome: "injected",
      },
    },
  } as unknown as Event;
}

function modelEvent(session_id: string): Event {
  return {
    schema_version: 1,
    common: eventCommon("model.call", { session_id }),
    model: {
      request: {
        provider: "anthropic",
        api_family: "messages",
        model: "m-1",
        stream: false,
        operation: "chat",
      },
    },
  } as unknown as Event;
}

/** Data carried out in names, and in the arguments of a tool. */
function lookup(session_id: string, qname: string): Event {
  return {
    schema_version: 1,
    common: eventCommon("dns.query", { session_id }),
    dns: { request: { qname, qtype: "A", transport: "udp" } },
  } as unknown as Event;
}

function toolCall(session_id: string, args: Record<string, unknown>): Event {
  return {
    schema_version: 1,
    common: eventCommon("mcp.tool_call", { session_id }),
    mcp: {
      request: {
        method: "tools/call",
        server_name: "tracker",
        tool_name: "comment",
        namespaced_tool_name: "tracker.comment",
        arguments: args,
      },
    },
  } as unknown as Event;
}

interface Places {
  store: string;
  machines: Awaited<ReturnType<typeof listMachines>>;
  server: ClickHouseProcess;
}

/** Asks the views of ClickHouse and DuckDB, and the panels of the dashboard, as other programs do. */
async function sameFromViews(
  answers: ReadonlyMap<string, unknown[]>,
  values: Record<string, string>,
  { store, machines, server }: Places,
): Promise<void> {
  const client = new ClickHouseClient(parseClickHouse(server.url));
  const path = `${store}/../fleet.duckdb`;
  {
    await using duck = await DuckDb.open(path);
    for (const statement of schemaStatements("duckdb")) await duck.rows(statement);
    const parquet = parquetTable(store, "duckdb");
    for (const name of ["events", "outcomes", "journal"]) {
      await duck.rows(`INSERT INTO ${name} BY NAME SELECT * FROM ${parquet(name)}`);
    }
    for (const { machine_id, name, team = "", enrolled_at } of machines) {
      await duck.rows(
        `INSERT INTO machines VALUES ('${machine_id}', '${name}', '${team}', '${enrolled_at}')`,
      );
    }
    for (const statement of viewStatements("duckdb")) await duck.rows(statement);
  }
  const text = (value: string) => ({ type: "string" as const, values: [value] });
  await using file = await openRecords(`duckdb://${path}`);
  const panels = grafanaDashboard().panels as { title: string; targets?: { rawSql: string }[] }[];
  for (const question of QUESTIONS) {
    const { name } = question;
    const value = question.value && values[question.value];
    const terms = { ...(value && { value }), since: 1 };
    assertEquals(
      await ask({ engine: file.engine, table: file.table! }, question, terms),
      answers.get(name),
      `${name} in a file`,
    );
    const asked = (rows: Row[]) => rows.map(withTimes);
    const macro = viewStatements("duckdb").find((each) => each.includes(` ${viewName(question)}(`))!;
    const [, parameters] = /\((.*?)\) AS TABLE/.exec(macro)!;
    const given = parameters.replace("value", "value := $value").replace("since", "since := 1");
    assertEquals(
      asked(
        await file.engine.rows(
          `SELECT * FROM ${viewName(question)}(${given})`,
          value ? { value: text(value) } : {},
        ),
      ),
      answers.get(name),
      `${name}, macro`,
    );
    // A view is called with the parameters that it has.
    const view = viewStatements("clickhouse").find((each) => each.includes(` ${viewName(question)} `))!;
    const call = [
      ...(view.includes("{value:") ? ["value = {value:String}"] : []),
      ...(view.includes("{since:") ? ["since = 1"] : []),
    ];
    const from = `SELECT * FROM ${viewName(question)}${call.length > 0 ? `(${call.join(", ")})` : ""}`;
    assertEquals(
      asked(await client.rows(from, value ? { value: text(value) } : {})),
      answers.get(name),
      `${name}, view`,
    );
    const panel = panels.find(({ title }) => title.split(":")[0] === name)!;
    assertEquals(
      asked(await client.rows(inGrafana(panel.targets![0].rawSql, value))),
      answers.get(name),
      `${name}, panel`,
    );
    // What would end a literal is only a value.
    if (value) {
      for (const hostile of ["' OR 1 = 1 --", "\\' OR 1 = 1 --", "${__from}", "%27 OR 1"]) {
        const found = await client.rows(inGrafana(panel.targets![0].rawSql, hostile));
        assertEquals(found, [], `${name} with ${hostile}`);
      }
    }
  }
}

/**
 * A statement as Grafana sends it: variables replaced by texts, which `percentencode` makes of
 * letters, digits and -_.~% alone.
 */
function inGrafana(sql: string, value = ""): string {
  const encoded = encodeURIComponent(value).replace(
    /[!'()*]/g,
    (character) => `%${character.charCodeAt(0).toString(16).toUpperCase()}`,
  );
  return sql.replaceAll("${__from}", "1").replace(/\$\{\w+:percentencode\}/g, () => encoded)
    .replace(/ SETTINGS join_use_nulls = 1$/, "");
}

function withTimes(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) =>
      name.endsWith("_ms")
        ? [name.slice(0, -3), typeof value === "number" ? new Date(value).toISOString() : ""]
        : [name, value]
    ),
  );
}

Deno.test("questions have the same answers on DuckDB and ClickHouse", async () => {
  await using fleet = await TestFleet.start();
  const allow = { decision: "allow", rule: { id: "allow-web" } };
  const block = { decision: "block", rule: { id: "no-evil" } };
  for (const [at, session] of [SESSION_A, SESSION_B].entries()) {
    const key = await fleet.machine(`laptop-${at + 1}`, at ? "payments" : "search");
    const path = `${fleet.dir}/${session}.db`;
    const asked = webEvent(session, "new.example.com");
    await record(path, session, [
      { event: webEvent(session, "api.example.com"), decision: allow },
      {
        event: webEvent(session, at ? "evil.example.com" : "docs.example.com", "/left-pad-1.2.3.tgz"),
        decision: at ? block : allow,
      },
      { event: credentialEvent(session), decision: allow },
      { event: modelEvent(session), decision: allow },
      { event: lookup(session, "c2VjcmV0.evil.example.com"), decision: allow },
      { event: lookup(session, "c2VjcmV1.evil.example.com"), decision: block },
      { event: toolCall(session, { text: "ü" }), decision: allow },
      { event: webEvent(session, "stream.example.com"), decision: allow, end: { streamed_bytes: 5000 } },
      {
        event: webEvent(session, "mute.example.com"),
        decision: allow,
        end: { isAnswered: false, error: "the server closed the connection", streamed_bytes: 700 },
      },
      {
        event: asked,
        decision: { decision: "ask", rule: { id: "ask-new" } },
        rows: [{
          table: "approvals",
          record: {
            ask_id: `ask-${session}`,
            event_id: asked.common.event_id,
            status: "allowed",
            waited_ms: 4000,
          } as never,
        }],
        findings: [
          {
            finding_id: `f-${session}`,
            event_id: asked.common.event_id,
            rule_id: "exfil",
            severity: "high",
          } as never,
        ],
      },
    ]);
    await fleet.shipper(key).ship(session, path);
  }
  await fleet.machine("laptop-3");
  await writeTables(fleet.store);
  const machines = await listMachines(fleet.store);
  const values: Record<string, string> = {
    HOST: "evil.example.com",
    TEXT: "left-pad-1.2.3",
    REF,
    EXECUTABLE: "ls",
    HASH: "0".repeat(64),
    SESSION: SESSION_B,
  };
  const answers = new Map<string, unknown[]>();
  await using server = await ClickHouseProcess.start();
  const loader = new ClickHouseLoader(fleet.store, new ClickHouseClient(parseClickHouse(server.url)));
  await loader.prepare();
  await loader.round();
  for (const records of [`duckdb://${fleet.store}`, `chdb://${fleet.store}`, server.url]) {
    await using over = await openRecords(records);
    for (const question of QUESTIONS) {
      const value = question.value && values[question.value];
      const rows = await ask(
        { engine: over.engine, table: over.table!, ...(!over.hasMachines && { machines }) },
        question,
        { ...(value && { value }), since: 1 },
      );
      const before = answers.get(question.name);
      if (before) assertEquals(rows, before, `${question.name} over ${records}`);
      answers.set(question.name, rows);
    }
  }
  await sameFromViews(answers, values, { store: fleet.store, machines, server });
  const rows = (name: string) => answers.get(name) as Parsed[];
  assertEquals(rows("reached-host").map(({ machine, team, session }) => [machine, team, session]), [[
    "laptop-2",
    "payments",
    SESSION_B,
  ]]);
  assertEquals(rows("fetched").length, 2);
  assertEquals(rows("used-credential").length, 2);
  assertEquals(rows("secrets").map(({ host, uses }) => [host, uses]), [["api.github.com", 1]]);
  assertEquals(rows("blocked").map(({ rule, events }) => [rule, events]), [["no-evil", 2], ["no-evil", 1]]);
  assertEquals(rows("asks").map(({ rule, asks, mean_s }) => [rule, asks, mean_s]), [["ask-new", 2, 4]]);
  assertEquals(rows("costs").map(({ team, calls }) => [team, calls]), [["payments", 1], ["search", 1]]);
  assertEquals(rows("findings").map(({ rule, severity, findings }) => [rule, severity, findings]), [[
    "exfil",
    "high",
    2,
  ]]);
  const left = rows("left").map((row) => [
    ...[row.machine, row.vm, row.kind, row.destination],
    ...[row.sent, row.bytes_sent, row.failed, row.refused],
  ]);
  // An upload whose receiver did not answer may have arrived.
  assertEquals(
    rows("left").slice(0, 2).map(({ destination, bytes_sent, bytes_failed }) => [
      ...[destination, bytes_sent, bytes_failed],
    ]),
    [["stream.example.com", 5000, 0], ["mute.example.com", 0, 700]],
  );
  const vm = eventCommon("http.request").vm_id;
  assertEquals(
    left.toSorted(),
    [
      ["laptop-2", vm, "dns", "example.com", 1, 25, 0, 1],
      ["laptop-2", vm, "http", "api.example.com", 1, 0, 0, 0],
      ["laptop-2", vm, "http", "evil.example.com", 0, 0, 0, 1],
      ["laptop-2", vm, "http", "mute.example.com", 0, 0, 1, 0],
      ["laptop-2", vm, "http", "new.example.com", 1, 0, 0, 0],
      ["laptop-2", vm, "http", "stream.example.com", 1, 5000, 0, 0],
      ["laptop-2", vm, "mcp", "tracker", 1, 0, 0, 0],
      ["laptop-2", vm, "model", "anthropic m-1", 1, 0, 0, 0],
    ],
  );
  assertEquals(rows("egress").find(({ kind }) => kind === "mcp"), {
    ...rows("egress").find(({ kind }) => kind === "mcp"),
    destination: "tracker",
    sent: 2,
    bytes_sent: 0,
    machines: 2,
    sessions: 2,
  });
  assertEquals(rows("silent").find(({ machine }) => machine === "laptop-3").events, 0);
  assert(rows("profiles").length === 1);
});
