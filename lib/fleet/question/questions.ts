/**
 * Prepared questions about a fleet (docs/guides/fleet.md, "Questions"): SQL that both ClickHouse and DuckDB
 * accept.
 */
import type { Dialect } from "../../detection/sql/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import type { Engine, Parameters, Row } from "../engine.ts";
import type { Machine } from "../receive/mod.ts";

/** Parts that a question writes its statement with. */
interface Writing {
  /** table by name: events, outcomes, journal, machines */
  from(table: "events" | "outcomes" | "journal" | "machines"): string;
  /** a value of the question, as a parameter */
  value: string;
  /** text at a path of a column of JSON */
  json(column: string, path: string): string;
  /** number at a path of a column of JSON, or 0 */
  jsonNumber(column: string, path: string): string;
  /** `bytes` of the JSON at a path of a column */
  jsonBytes(column: string, path: string): string;
  /** `bytes` of a text */
  bytes(text: string): string;
  /** the first part of a text that a regular expression matches, or an empty text */
  match(text: string, expression: string): string;
  /** whether a text has the value of the question in it */
  contains(text: string): string;
  /** condition on events: since the beginning of the time asked for */
  since: string;
}

export interface Question {
  name: string;
  about: string;
  /** subject of the question, such as HOST; absent: none */
  value?: string;
  sql(write: Writing): string;
}

const NAMED = ({ from }: Writing) => `LEFT JOIN ${from("machines")} AS m ON m.machine_id = e.machine_id`;
const SEEN = "min(e.timestamp_unix_ms) AS first_ms, max(e.timestamp_unix_ms) AS last_ms";
const WHO =
  "coalesce(any_value(m.name), '') AS machine, coalesce(any_value(m.team), '') AS team, e.session_id AS session";

/** Sessions with events that meet a condition. */
const sessions = (condition: (write: Writing) => string) => (write: Writing) =>
  `SELECT ${WHO}, any_value(e.profile_id) AS profile, count(*) AS events, ${SEEN}
FROM ${write.from("events")} AS e ${NAMED(write)}
WHERE ${write.since} AND (${condition(write)})
GROUP BY e.machine_id, e.session_id ORDER BY last_ms DESC, session`;

/**
 * Events that send something, each with its way, destination, bytes and what became of it, as `sbx report`
 * counts them (lib/service/record/report): a model call is an HTTP request too, whose bytes are in that row;
 * events that a rule blocked, asks that ended without an answer, and answers of the host's cache have sent
 * nothing. Bytes of a stream are in the outcome, and one that failed may have sent them: an upload whose
 * receiver does not answer has arrived.
 */
const sending = ({ from, since, json, jsonNumber, jsonBytes, bytes, match }: Writing, condition: string) =>
  `SELECT e.machine_id AS machine_id, e.vm_id AS vm, e.session_id AS session_id, e.family AS kind,
  e.timestamp_unix_ms AS timestamp_unix_ms,
  CASE e.family WHEN 'http' THEN e.http_request_host
    WHEN 'dns' THEN coalesce(nullif(${
    match("e.dns_request_qname", "[^.]+[.][^.]+$")
  }, ''), e.dns_request_qname)
    WHEN 'db' THEN e.db_request_host WHEN 'mcp' THEN e.mcp_request_server_name
    WHEN 'model' THEN concat(coalesce(e.model_request_provider, ''), ' ', coalesce(e.model_request_model, ''))
    ELSE 'exported file' END AS destination,
  CASE e.family WHEN 'http' THEN coalesce(e.http_request_bytes, 0) + coalesce(o.streamed, 0)
    WHEN 'dns' THEN ${bytes("coalesce(e.dns_request_qname, '')")}
    WHEN 'db' THEN coalesce(e.db_request_bytes, 0)
    WHEN 'mcp' THEN ${jsonBytes("e.event", "mcp.request.arguments")}
    WHEN 'file' THEN coalesce(e.file_activity_byte_count, 0) ELSE 0 END AS bytes,
  CASE WHEN coalesce(o.cached, 0) = 1 THEN 'cached'
    WHEN coalesce(e.decision, '') = 'block' OR coalesce(e.decision, '') = 'ask' AND coalesce(o.answered, 0) = 0 THEN 'refused'
    WHEN coalesce(o.failed, 0) = 1 AND coalesce(o.answered, 0) = 0 THEN 'failed' ELSE 'sent' END AS outcome
FROM ${from("events")} AS e LEFT JOIN (
  SELECT machine_id, session_id, event_id, max(CASE WHEN has_response THEN 1 ELSE 0 END) AS answered,
    max(CASE WHEN response_cache_digest IS NULL THEN 0 ELSE 1 END) AS cached,
    max(CASE WHEN coalesce(${json("outcome", "error")}, '') = '' THEN 0 ELSE 1 END) AS failed,
    max(${jsonNumber("outcome", "streamed_bytes")}) AS streamed
  FROM ${from("outcomes")} AS ends GROUP BY machine_id, session_id, event_id
) AS o ON o.machine_id = e.machine_id AND o.session_id = e.session_id AND o.event_id = e.event_id
WHERE ${since} AND ${condition} AND (e.family IN ('http', 'dns', 'db', 'model')
  OR e.family = 'mcp' AND e.mcp_request_method = 'tools/call' OR e.file_activity_operation = 'export')`;

const of = (outcome: string, value: string) =>
  `sum(CASE WHEN e.outcome = '${outcome}' THEN ${value} ELSE 0 END)`;
const SENT = `${of("sent", "1")} AS sent, ${of("sent", "e.bytes")} AS bytes_sent, ${
  of("failed", "1")
} AS failed, ${of("failed", "e.bytes")} AS bytes_failed,
  ${of("refused", "1")} AS refused`;

export const QUESTIONS: readonly Question[] = [
  {
    name: "reached-host",
    about: "sessions that sent a request or a name lookup to a host",
    value: "HOST",
    sql: sessions(({ value }) => `e.http_request_host = ${value} OR e.dns_request_qname = ${value}`),
  },
  {
    name: "fetched",
    about: "sessions with a request whose URL has this text, such as a package's name",
    value: "TEXT",
    sql: sessions(({ contains }) => contains("coalesce(e.http_request_url, '')")),
  },
  {
    name: "used-credential",
    about: "sessions that used a credential, by its ref",
    value: "REF",
    sql: sessions(({ value }) => `e.credential_substitution_credential_ref = ${value}`),
  },
  {
    name: "ran",
    about: "sessions that ran a program",
    value: "EXECUTABLE",
    sql: sessions(({ value }) =>
      `e.process_activity_executable = ${value} AND e.event_type = 'process.exec' OR e.process_executable = ${value}`
    ),
  },
  {
    name: "ran-image",
    about: "sessions whose VM booted from a file with this BLAKE3 hash",
    value: "HASH",
    sql: ({ from, contains }) =>
      `SELECT coalesce(m.name, '') AS machine, coalesce(m.team, '') AS team, j.session_id AS session, count(*) AS boots
FROM ${from("journal")} AS j LEFT JOIN ${from("machines")} AS m ON m.machine_id = j.machine_id
WHERE j.kind = 'statement' AND ${contains("coalesce(j.record, '')")}
GROUP BY m.name, m.team, j.session_id ORDER BY session`,
  },
  {
    name: "secrets",
    about: "credentials that a session used, and where they went",
    value: "SESSION",
    sql: ({ from, value, since }) =>
      `SELECT e.credential_substitution_provider AS provider, e.credential_substitution_credential_ref AS ref,
  e.credential_substitution_host AS host, e.credential_substitution_outcome AS outcome, count(*) AS uses, ${SEEN}
FROM ${from("events")} AS e
WHERE ${since} AND e.family = 'credential' AND e.session_id = ${value}
GROUP BY provider, ref, host, outcome ORDER BY uses DESC, ref, host`,
  },
  {
    name: "egress",
    about: "what left, by kind and destination",
    sql: (write) =>
      `SELECT e.kind AS kind, e.destination AS destination, ${SENT}, count(DISTINCT e.machine_id) AS machines,
  count(DISTINCT e.session_id) AS sessions, ${SEEN}
FROM (${sending(write, "1 = 1")}) AS e
GROUP BY e.kind, e.destination ORDER BY bytes_sent + bytes_failed DESC, sent DESC, kind, destination`,
  },
  {
    name: "left",
    about: "what left from one session, by kind and destination",
    value: "SESSION",
    sql: (write) =>
      `SELECT coalesce(any_value(m.name), '') AS machine, any_value(e.vm) AS vm, e.kind AS kind,
  e.destination AS destination, ${SENT}, ${SEEN}
FROM (${sending(write, `e.session_id = ${write.value}`)}) AS e ${NAMED(write)}
GROUP BY e.machine_id, e.kind, e.destination ORDER BY bytes_sent + bytes_failed DESC, sent DESC, kind, destination`,
  },
  {
    name: "blocked",
    about: "events that rules blocked",
    sql: (write) =>
      `SELECT e.rule_id AS rule, e.event_type AS event_type, count(*) AS events, count(DISTINCT e.session_id) AS sessions, ${SEEN}
FROM ${write.from("events")} AS e
WHERE ${write.since} AND e.decision = 'block' GROUP BY e.rule_id, e.event_type ORDER BY events DESC, rule`,
  },
  {
    name: "asks",
    about: "asks by rule, with the time until they were answered",
    sql: ({ from, json, since }) =>
      `SELECT e.rule_id AS rule, count(*) AS asks, avg(CAST(${
        json("j.record", "waited_ms")
      } AS DOUBLE)) / 1000 AS mean_s,
  max(CAST(${json("j.record", "waited_ms")} AS DOUBLE)) / 1000 AS longest_s
FROM ${from("journal")} AS j JOIN ${from("events")} AS e
  ON e.machine_id = j.machine_id AND e.session_id = j.session_id AND e.event_id = ${
        json("j.record", "event_id")
      }
WHERE j.kind = 'approval' AND j.record IS NOT NULL AND ${since}
GROUP BY e.rule_id ORDER BY asks DESC, rule`,
  },
  {
    name: "costs",
    about: "model calls and their cost, by team and model",
    sql: (write) =>
      `SELECT coalesce(m.team, '') AS team, e.model_request_provider AS provider, e.model_request_model AS model,
  count(*) AS calls, sum(coalesce(o.response_input_tokens, 0)) AS input_tokens,
  sum(coalesce(o.response_output_tokens, 0)) AS output_tokens,
  sum(coalesce(o.response_estimated_cost_micros, 0)) / 1000000 AS usd
FROM ${write.from("events")} AS e ${NAMED(write)}
LEFT JOIN ${write.from("outcomes")} AS o
  ON o.machine_id = e.machine_id AND o.session_id = e.session_id AND o.event_id = e.event_id
WHERE ${write.since} AND e.family = 'model'
GROUP BY m.team, e.model_request_provider, e.model_request_model ORDER BY usd DESC, calls DESC, team, model`,
  },
  {
    name: "findings",
    about: "findings by rule and severity",
    sql: ({ from, json }) =>
      `SELECT ${json("j.record", "rule_id")} AS rule, ${
        json("j.record", "severity")
      } AS severity, count(*) AS findings,
  count(DISTINCT j.session_id) AS sessions
FROM ${from("journal")} AS j WHERE j.kind = 'finding' AND j.record IS NOT NULL
GROUP BY ${json("j.record", "rule_id")}, ${json("j.record", "severity")} ORDER BY findings DESC, rule`,
  },
  {
    name: "profiles",
    about: "profiles and revisions in use: more than one revision is drift",
    sql: (write) =>
      `SELECT e.profile_id AS profile, e.profile_revision AS revision, count(DISTINCT e.machine_id) AS machines,
  count(DISTINCT e.session_id) AS sessions, ${SEEN}
FROM ${write.from("events")} AS e WHERE ${write.since}
GROUP BY e.profile_id, e.profile_revision ORDER BY profile, last_ms DESC`,
  },
  {
    name: "silent",
    about: "machines with their last event, the longest silent one first",
    sql: ({ from }) =>
      `SELECT m.name AS machine, m.team AS team, count(e.event_id) AS events, max(e.timestamp_unix_ms) AS last_ms
FROM ${from("machines")} AS m LEFT JOIN ${from("events")} AS e ON e.machine_id = m.machine_id
GROUP BY m.machine_id, m.name, m.team ORDER BY last_ms, machine`,
  },
];

/** Text at a path of a column, in each dialect. Paths are constants here, never a person's input. */
function jsonText(dialect: Dialect, column: string, path: string): string {
  return dialect === "duckdb"
    ? `json_extract_string(${column}, '$.${path}')`
    : `JSON_VALUE(assumeNotNull(${column}), '$.${path}')`;
}

/** Number at a path of a column of JSON, in each dialect; 0 without one. */
function jsonNumber(dialect: Dialect, column: string, path: string): string {
  const text = jsonText(dialect, column, path);
  return dialect === "duckdb" ? `coalesce(TRY_CAST(${text} AS BIGINT), 0)` : `toInt64OrZero(${text})`;
}

/** Bytes of the JSON at a path of a column, in each dialect. Both write it without spaces. */
function jsonBytes(dialect: Dialect, column: string, path: string): string {
  const length = dialect === "duckdb"
    ? `strlen(CAST(json_extract(${column}, '$.${path}') AS VARCHAR))`
    : `toInt64(length(JSONExtractRaw(assumeNotNull(${column}), ${
      path.split(".").map((key) => `'${key}'`).join(", ")
    })))`;
  // Two bytes are {}: contents that stayed on the machine, or none.
  return `coalesce(nullif(${length}, 2), 0)`;
}

/** Where a question is asked. */
export interface Asked {
  engine: Engine;
  /** table by name */
  table(name: string): string;
  /** absent: they are a table */
  machines?: readonly Machine[];
}

/** Most rows of an answer. */
export const ANSWER_ROWS = 1000;

/** Finds a question. @throws {SbxError} `fleet.question.not_found` */
export function findQuestion(name: string): Question {
  const question = QUESTIONS.find((each) => each.name === name);
  if (question) return question;
  throw new SbxError("fleet.question.not_found", `there is no question "${name}"`, {
    hint: didYouMean(name, QUESTIONS.map((each) => each.name)) ?? "sbx fleet ask lists them",
  });
}

/**
 * Answers a question.
 *
 * @param value subject of the question
 * @param since beginning of the time asked for, in Unix `ms`
 */
export async function ask(
  { engine, table, machines }: Asked,
  question: Question,
  { value, since = 0 }: { value?: string; since?: number } = {},
): Promise<Row[]> {
  if ((value === undefined) !== (question.value === undefined)) {
    throw new SbxError(
      "usage.invalid",
      question.value === undefined
        ? `the question ${question.name} takes no value`
        : `the question ${question.name} needs a value: ${question.value}`,
    );
  }
  const { sql, parameters } = writeQuestion(question, engine.dialect, { table, machines, value, since });
  return (await engine.rows(sql, parameters)).map(withTimes);
}

/** Writes the statement of a question. */
export function writeQuestion(
  question: Question,
  dialect: Dialect,
  { table, machines, value, since = 0 }: Pick<Asked, "table" | "machines"> & {
    value?: string;
    since?: number;
  },
): { sql: string; parameters: Parameters } {
  const parameter = (name: string, type: string) => dialect === "duckdb" ? `$${name}` : `{${name}:${type}}`;
  const parameters: Parameters = {};
  const write = writingOf(dialect, {
    from: (name) => name === "machines" && machines ? machineRows(machines) : table(name),
    value: parameter("value", "String"),
    since: parameter("since", "Int64"),
  });
  const sql = `SELECT * FROM (\n${question.sql(write)}\n) AS answer LIMIT ${ANSWER_ROWS}`;
  if (sql.includes(parameter("since", "Int64"))) parameters.since = { type: "number", values: [since] };
  if (value !== undefined) parameters.value = { type: "string", values: [value] };
  return { sql, parameters };
}

/** Builds the parts a question writes its statement with. @param since Unix `ms` in SQL */
export function writingOf(
  dialect: Dialect,
  { from, value, since }: Pick<Writing, "from" | "value"> & { since: string },
): Writing {
  return {
    from,
    value,
    json: (column, path) => jsonText(dialect, column, path),
    jsonNumber: (column, path) => jsonNumber(dialect, column, path),
    jsonBytes: (column, path) => jsonBytes(dialect, column, path),
    bytes: (text) => dialect === "duckdb" ? `strlen(${text})` : `toInt64(length(${text}))`,
    match: (text, expression) =>
      dialect === "duckdb" ? `regexp_extract(${text}, '${expression}')` : `extract(${text}, '${expression}')`,
    contains: (column) =>
      dialect === "duckdb" ? `contains(${column}, ${value})` : `position(${column}, ${value}) > 0`,
    since: `e.timestamp_unix_ms >= ${since}`,
  };
}

/** Machines as a table. Their names were checked when they enrolled: letters, digits and . _ @ - */
function machineRows(machines: readonly Machine[]): string {
  const quote = (text: string) => `'${text.replaceAll(/['\\]/g, "")}'`;
  const rows = machines.map(({ machine_id, name, team = "" }) =>
    `SELECT ${quote(machine_id)} AS machine_id, ${quote(name)} AS name, ${quote(team)} AS team`
  );
  const none = "SELECT '' AS machine_id, '' AS name, '' AS team WHERE 1 = 0";
  return `(${rows.length > 0 ? rows.join(" UNION ALL ") : none})`;
}

/** Replaces times in Unix `ms` by texts. */
function withTimes(row: Row): Row {
  return Object.fromEntries(
    Object.entries(row).map(([name, value]) => {
      if (!name.endsWith("_ms")) return [name, value];
      return [name.slice(0, -"_ms".length), typeof value === "number" ? new Date(value).toISOString() : ""];
    }),
  );
}

// Questions as views of a database, for clients without sbx.

/** Name of the view of a question. */
export function viewName({ name }: Pick<Question, "name">): string {
  return `ask_${name.replaceAll("-", "_")}`;
}

/**
 * DDL of the views: in ClickHouse `SELECT * FROM ask_left(value = 'SESSION', since = 0)`, in DuckDB macros
 * called with the same names and `:=`. `since` is in Unix `ms`. Views have their questions' parameters.
 */
export function viewStatements(dialect: Dialect): string[] {
  return QUESTIONS.map((question) =>
    dialect === "clickhouse" ? clickHouseView(question) : duckDbMacro(question)
  );
}

function clickHouseView(question: Question): string {
  const sql = question.sql(writingOf("clickhouse", {
    from: (table) => `(SELECT * FROM ${table} FINAL)`,
    value: "{value:String}",
    since: "{since:Int64}",
  }));
  return `CREATE OR REPLACE VIEW ${viewName(question)} AS\n${sql}\nSETTINGS join_use_nulls = 1`;
}

function duckDbMacro(question: Question): string {
  const sql = question.sql(writingOf("duckdb", { from: (table) => table, value: "value", since: "since" }));
  const parameters = [...(question.value ? ["value"] : []), ...(sql.includes(">= since") ? ["since"] : [])];
  return `CREATE OR REPLACE MACRO ${viewName(question)}(${parameters.join(", ")}) AS TABLE\n${sql}`;
}
