/**
 * Tables of `session.db` (contracts.md §12). One row is written per event. Its common fields are generated
 * columns and the family tables are views, both computed from the event's own JSON: what the hash chain covers is
 * all there is, so no second copy can be edited or disagree.
 */

/** Rows of one INSERT. */
export const BATCH_ROWS = 500;

/** `prev_hash` of a ledger's first event. */
export const GENESIS = "0".repeat(64);

/** Columns of security_events that every event has; the rest are generated. */
export const PLAIN_COLUMNS = ["sequence", "event_id", "event_type", "event", "prev_hash", "hash"] as const;
/** And those of a decision. */
export const EVENT_COLUMNS = [...PLAIN_COLUMNS, "decision", "rule_id", "record", "record_hash"] as const;

/** What holds of an event: what was decided of it last. */
export const DECISION = "coalesce(outcomes.decision, security_events.decision)";

const COMMON = [
  "session_id",
  "vm_id",
  "profile_id",
  "profile_revision",
  "user_id",
  "timestamp_unix_ms",
  "source_engine",
  "enforceability",
  "actor",
  "trace_id",
];

/** Columns of outcomes: a chain of its own, beside that of the events that they end. */
export const OUTCOME_COLUMNS = ["number", "event_id", "outcome", "prev_hash", "hash"] as const;

/** View name → event family, and the paths whose values are its columns. */
const VIEWS: Record<string, { family: string; columns: Record<string, string> }> = {
  net_events: {
    family: "http",
    columns: {
      method: "http.request.method",
      scheme: "http.request.scheme",
      host: "http.request.host",
      port: "http.request.port",
      path: "http.request.path",
      query: "http.request.query",
      request_bytes: "http.request.bytes",
      request_headers: "http.request.headers",
      request_body: "http.request.body",
      status: "http.response.status",
      response_bytes: "http.response.bytes",
      response_headers: "http.response.headers",
      response_body: "http.response.body",
    },
  },
  dns_events: {
    family: "dns",
    columns: {
      qname: "dns.request.qname",
      qtype: "dns.request.qtype",
      transport: "dns.request.transport",
      rcode: "dns.response.rcode",
      answers: "dns.response.answers",
    },
  },
  model_calls: {
    family: "model",
    columns: {
      provider: "model.request.provider",
      api_family: "model.request.api_family",
      model: "model.request.model",
      operation: "model.request.operation",
      stream: "model.request.stream",
      messages_count: "model.request.messages_count",
      tools_count: "model.request.tools_count",
      status: "model.response.status",
      stop_reason: "model.response.stop_reason",
      input_tokens: "model.response.input_tokens",
      output_tokens: "model.response.output_tokens",
      estimated_cost_micros: "model.response.estimated_cost_micros",
      tool_calls: "model.response.tool_calls",
    },
  },
  mcp_calls: {
    family: "mcp",
    columns: {
      method: "mcp.request.method",
      server_name: "mcp.request.server_name",
      tool_name: "mcp.request.tool_name",
      namespaced_tool_name: "mcp.request.namespaced_tool_name",
      arguments: "mcp.request.arguments",
      is_error: "mcp.response.is_error",
      content: "mcp.response.content",
    },
  },
  fs_events: {
    family: "file",
    columns: {
      operation: "file.activity.operation",
      path: "file.activity.path",
      path_class: "file.activity.path_class",
      name: "file.activity.name",
      ext: "file.activity.ext",
      byte_count: "file.activity.byte_count",
    },
  },
  exec_events: {
    family: "process",
    columns: {
      operation: "process.activity.operation",
      executable: "process.activity.executable",
      command: "process.activity.command",
      argv: "process.activity.argv",
      cwd: "process.activity.cwd",
      exit_code: "process.activity.exit_code",
    },
  },
  substitution_events: {
    family: "credential",
    columns: {
      provider: "credential.substitution.provider",
      credential_ref: "credential.substitution.credential_ref",
      host: "credential.substitution.host",
      location: "credential.substitution.location",
      outcome: "credential.substitution.outcome",
      reason: "credential.substitution.reason",
    },
  },
};

const views = Object.entries(VIEWS).map(([name, { family, columns }]) =>
  `CREATE VIEW IF NOT EXISTS ${name} AS SELECT sequence, event_id, timestamp_unix_ms, ${DECISION} AS decision,
     coalesce(outcome->>'$.decision.rule.id', rule_id) AS rule_id,
     event->>'$.common.process.pid' AS pid, event->>'$.common.process.executable' AS process,
     ${Object.entries(columns).map(([column, path]) => `${columnOf(path)} AS ${column}`).join(", ")},
     outcome->>'$.first_byte_ms' AS first_byte_ms, outcome->>'$.duration_ms' AS duration_ms,
     outcome->>'$.error' AS error
   FROM security_events LEFT JOIN outcomes USING (event_id) WHERE family = '${family}';`
);

/** A response is in the event itself where it was known when that was appended, and else in its outcome. */
function columnOf(path: string): string {
  const [, response] = path.match(/^\w+\.(response\..*)$/) ?? [];
  return response ? `coalesce(event->>'$.${path}', outcome->>'$.${response}')` : `event->>'$.${path}'`;
}

/** Bytes of a database page: an event is most of a kilobyte, and of small pages twice as many are written. */
export const PAGE_BYTES = 16_384;

/** What each connection of the writer is told first. The log is folded into the file every 32 MB. */
export const PRAGMAS = `
PRAGMA page_size = ${PAGE_BYTES};
PRAGMA journal_mode = WAL;
PRAGMA wal_autocheckpoint = 2000;
PRAGMA synchronous = NORMAL;
PRAGMA busy_timeout = 1000;
`;

/** The whole schema, for one `executeMultiple`. */
export const SCHEMA = `
CREATE TABLE IF NOT EXISTS ledger_info (id INTEGER PRIMARY KEY CHECK (id = 1), session_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS security_events (
  sequence INTEGER PRIMARY KEY,
  event_id TEXT NOT NULL,
  event_type TEXT NOT NULL,
  decision TEXT,
  rule_id TEXT,
  event TEXT NOT NULL,
  record TEXT,
  prev_hash TEXT NOT NULL,
  hash TEXT NOT NULL,
  record_hash TEXT,
  family TEXT GENERATED ALWAYS AS (substr(event_type, 1, instr(event_type, '.') - 1)) VIRTUAL,
  ${
  COMMON.map((name) => `${name} TEXT GENERATED ALWAYS AS (event->>'$.common.${name}') VIRTUAL`).join(",\n  ")
}
);
CREATE INDEX IF NOT EXISTS security_events_by_id ON security_events (event_id);
CREATE INDEX IF NOT EXISTS security_events_denied ON security_events (sequence) WHERE decision = 'block';
CREATE TABLE IF NOT EXISTS outcomes (
  number INTEGER PRIMARY KEY, event_id TEXT NOT NULL, outcome TEXT NOT NULL, prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
  decision TEXT GENERATED ALWAYS AS (outcome->>'$.decision.decision') VIRTUAL
);
CREATE UNIQUE INDEX IF NOT EXISTS outcomes_by_event ON outcomes (event_id);
CREATE TABLE IF NOT EXISTS findings (
  finding_id TEXT PRIMARY KEY, event_id TEXT NOT NULL, rule_id TEXT NOT NULL, finding TEXT NOT NULL, hash TEXT NOT NULL,
  pack_id TEXT GENERATED ALWAYS AS (finding->>'$.pack_id') VIRTUAL,
  severity TEXT GENERATED ALWAYS AS (finding->>'$.severity') VIRTUAL,
  confidence TEXT GENERATED ALWAYS AS (finding->>'$.confidence') VIRTUAL,
  title TEXT GENERATED ALWAYS AS (finding->>'$.title') VIRTUAL
);
CREATE INDEX IF NOT EXISTS findings_by_event ON findings (event_id);
CREATE TABLE IF NOT EXISTS approvals (
  ask_id TEXT PRIMARY KEY, event_id TEXT NOT NULL, record TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE TABLE IF NOT EXISTS body_blobs (hash TEXT PRIMARY KEY, content_type TEXT, bytes BLOB NOT NULL);
CREATE VIEW IF NOT EXISTS decisions AS SELECT sequence, event_id, decision, rule_id,
  record->>'$.rule.layer' AS layer, record->>'$.rule.reason' AS reason, record
  FROM security_events WHERE record IS NOT NULL;
${views.join("\n")}
`;

const inserts = new Map<string, string>();

/** The INSERT of many rows at once; that of a full batch is made once. */
export function insertRows(table: string, columns: readonly string[], rows: number): string {
  const key = `${table} ${columns.length} ${rows}`;
  const known = inserts.get(key);
  if (known) return known;
  const row = `(${columns.map(() => "?").join(",")})`;
  const sql = `INSERT INTO ${table} (${columns.join(",")}) VALUES ${Array(rows).fill(row).join(",")}`;
  if (rows === BATCH_ROWS) inserts.set(key, sql);
  return sql;
}
