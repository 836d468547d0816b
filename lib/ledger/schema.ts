/**
 * Rows, tables and views of `session.db` (docs/design/contracts/12-ledger.md §12). An event is one row, and
 * its end another one; everything else in the contract is a view of them.
 */
import { SbxError } from "../base/error/mod.ts";
import { timeLimit } from "../base/time/mod.ts";
import { type Event, EVENT_FAMILIES, type EventFamily } from "../event/mod.ts";

/**
 * Version of tables and views, stored as `PRAGMA user_version`. Ledgers without one are of version 1: same
 * tables, other views. Since version 3 decisions, findings, answers and bodies are bound into chains; since
 * version 4 there are statements, since version 5 views of databases, since version 6 of signatures, and
 * since version 7 an index of rare families. A change of a view needs a new version; a change of a table
 * or an index also a step in {@linkcode MIGRATE}.
 */
export const SCHEMA_VERSION = 7;

/** First version whose chains bind decisions, findings, answers and bodies. */
export const BOUND_VERSION = 3;

/** Most rows written in one transaction, and most characters of their JSON. */
export const BATCH_ROWS = 500;
export const BATCH_CHARS = 8 * 1024 * 1024;

/** `prev_hash` of the first row of a chain. */
export const GENESIS = "0".repeat(64);

/** Columns of every event. */
export const PLAIN_COLUMNS = ["sequence", "event_id", "event_type", "event", "prev_hash", "hash"] as const;
/** Columns of an event with a decision. */
export const EVENT_COLUMNS = [...PLAIN_COLUMNS, "decision", "rule_id", "record", "record_hash"] as const;
/** Columns of an outcome. Outcomes are a chain of their own, beside that of the events. */
export const OUTCOME_COLUMNS = ["number", "event_id", "decision", "outcome", "prev_hash", "hash"] as const;

/** Columns of the journal: the chain of the rows that are neither events nor outcomes. */
export const JOURNAL_COLUMNS = ["number", "kind", "id", "hash", "prev_hash", "link"] as const;
/** Kinds of rows in the journal. */
export type JournalKind = "finding" | "approval" | "statement" | "body";

/** Statement that adds rows. */
export interface Insert {
  into: string;
  columns: readonly string[];
  /** action if the row exists; absent: an error */
  or?: "IGNORE" | "REPLACE";
}

/** Every statement that adds rows to a ledger. */
export const INSERTS = {
  // Events without a decision have fewer columns, and each column costs time.
  plain: { into: "entries", columns: PLAIN_COLUMNS },
  decided: { into: "entries", columns: EVENT_COLUMNS },
  outcome: { into: "outcomes", columns: OUTCOME_COLUMNS },
  finding: {
    into: "findings",
    columns: ["finding_id", "event_id", "rule_id", "finding", "hash"],
    or: "IGNORE",
  },
  approval: { into: "approvals", columns: ["ask_id", "event_id", "record", "hash"], or: "REPLACE" },
  statement: { into: "statements", columns: ["statement_id", "kind", "record", "hash"], or: "IGNORE" },
  body: { into: "body_blobs", columns: ["hash", "content_type", "bytes"], or: "IGNORE" },
  journal: { into: "journal", columns: JOURNAL_COLUMNS },
} satisfies Record<string, Insert>;

/** SQL of an insert of `rows` rows. */
export function insertSql({ into, columns, or }: Insert, rows: number): string {
  const row = `(${columns.map(() => "?").join(",")})`;
  return `INSERT ${or ? `OR ${or} ` : ""}INTO ${into} (${columns.join(",")}) VALUES ${
    Array(rows).fill(row).join(",")
  }`;
}

/**
 * Size of a database page in `bytes`: an event takes most of a kilobyte, and smaller
 * pages mean twice as many writes.
 */
export const PAGE_BYTES = 16_384;

/** `ms` that a connection waits for a lock: opening or closing a ledger locks it briefly. */
export const BUSY_MS = timeLimit(1000);

/** Settings of each writing connection. The log is folded into the file every 32 MB. */
export const PRAGMAS = [
  `PRAGMA page_size = ${PAGE_BYTES}`,
  "PRAGMA journal_mode = WAL",
  "PRAGMA wal_autocheckpoint = 2000",
  "PRAGMA synchronous = NORMAL",
];

/** Table of statements, which readers of an older ledger get empty. */
export const STATEMENTS =
  "statements (statement_id TEXT PRIMARY KEY, kind TEXT NOT NULL, record TEXT NOT NULL, hash TEXT NOT NULL)";

// Rows as the ledger's users write and read them.

/**
 * Fields of a decision record that the ledger reads; the whole record is stored
 * (docs/design/contracts/05-policy.md §5).
 */
export interface LedgerDecision {
  decision: string;
  rule?: { id: string } | null;
}

/**
 * Fields of a finding that the ledger reads; the whole finding is stored
 * (docs/design/contracts/06-detection.md §6).
 */
export interface LedgerFinding {
  finding_id: string;
  event_id: string;
  rule_id: string;
}

/** Row of another table. */
export type LedgerRow =
  | { table: "body_blobs"; bytes: Uint8Array; content_type?: string }
  | { table: "approvals"; record: { ask_id: string; event_id: string } }
  | { table: "statements"; record: LedgerStatement };

/**
 * The host's statement about the session besides its events: how it booted, which settings are active
 * (docs/design/contracts/12-ledger.md §12).
 */
export interface LedgerStatement {
  statement_id: string;
  kind: string;
}

/** End of an event, with its final decision if that differs from the first one. */
export interface LedgerOutcome {
  event_id: string;
  /** response object of the event's family */
  response?: unknown;
  decision?: LedgerDecision;
  /** `ms` from the decision to the first byte of the response */
  first_byte_ms?: number;
  /** `ms` from the decision to the end of the response */
  duration_ms?: number;
  /** `bytes` that went out after the decision, which did not know of them */
  streamed_bytes?: number;
  /** reason of an early end */
  error?: string;
}

/** Rows appended together: all of them are written, or none. */
export interface LedgerEntry {
  /** its `common.sequence` is set by `append` */
  event: Event;
  decision?: LedgerDecision;
  findings?: readonly LedgerFinding[];
  rows?: readonly LedgerRow[];
}

/** The end of a chain of events: an event, and the hash of its row, with its decision. */
export interface LastEvent {
  id: string;
  hash: string;
}

// Views of `session.db` (docs/design/contracts/12-ledger.md §12): common fields, decisions, and one table
// per family. Every column is computed from the JSON covered by the hash chain, so that no copy can be
// edited or disagree, and appending an event costs nothing for unread columns.

/**
 * Events with their outcomes. If an event has several outcomes, the first counts. Columns of both
 * tables need their table's name.
 */
export const EVENTS_WITH_OUTCOMES = `entries LEFT JOIN outcomes ON outcomes.number =
  (SELECT min(number) FROM outcomes AS own WHERE own.event_id = entries.event_id)`;

/** Final decision of an event. */
export const DECISION = "coalesce(outcomes.decision, entries.decision)";

/** Family of an event: the part of its type before the dot. */
export const FAMILY = "substr(entries.event_type, 1, instr(entries.event_type, '.') - 1)";

/** Types that most events of a record have. An index finds the others without reading these. */
const FREQUENT = "('dns.query', 'file.activity', 'http.request', 'process.exec', 'process.exit')";
const FREQUENT_FAMILIES: readonly EventFamily[] = ["dns", "file", "http", "process"];

/** The conditions of the index, in its words: SQLite uses it for no others. `/` follows the dot in ASCII. */
function isOfRare(family: EventFamily): string {
  return `event_type NOT IN ${FREQUENT} AND event_type >= '${family}.' AND event_type < '${family}/'`;
}

/** Condition by the index on the events of a family; `undefined` for a family that most events are of. */
export function rareOf(family: EventFamily | undefined): string | undefined {
  return family && !FREQUENT_FAMILIES.includes(family) ? isOfRare(family) : undefined;
}

/** Condition on the events of a family. @param range further conditions on `sequence` */
export function isOfFamily(family: EventFamily, range = ""): string {
  if (FREQUENT_FAMILIES.includes(family)) return `${FAMILY} = '${family}'`;
  return `entries.sequence IN (SELECT sequence FROM entries WHERE ${isOfRare(family)}${range})`;
}

const RULE = "coalesce(outcome->>'$.decision.rule.id', entries.rule_id)";

/** Fields by column name. */
type Columns = Record<string, string>;

/** Columns of security_events that are fields of the event. */
const COMMON: Columns = Object.fromEntries(
  [
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
    "labels",
  ].map((name) => [name, `common.${name}`]),
);

/** Columns shared by the views of all families. */
const SHARED: Columns = {
  timestamp_unix_ms: "common.timestamp_unix_ms",
  pid: "common.process.pid",
  process: "common.process.executable",
  container: "common.process.container.name",
  container_id: "common.process.container.id",
  container_image: "common.process.container.image",
};

/** View and columns of each family. */
const FAMILIES: Record<EventFamily, { view: string; columns: Columns }> = {
  http: {
    view: "net_events",
    columns: {
      method: "http.request.method",
      scheme: "http.request.scheme",
      host: "http.request.host",
      port: "http.request.port",
      path: "http.request.path",
      query: "http.request.query",
      url: "http.request.url",
      path_class: "http.request.path_class",
      request_bytes: "http.request.bytes",
      request_headers: "http.request.headers",
      request_body: "http.request.body",
      git: "http.request.git",
      aws: "http.request.aws",
      ssh: "http.request.ssh",
      grpc: "http.request.grpc",
      status: "http.response.status",
      response_bytes: "http.response.bytes",
      cache_digest: "http.response.cache_digest",
      address: "http.response.address",
      grpc_result: "http.response.grpc",
      messages: "http.response.messages",
      messages_missing: "http.response.messages_missing",
      response_headers: "http.response.headers",
      response_body: "http.response.body",
    },
  },
  dns: {
    view: "dns_events",
    columns: {
      qname: "dns.request.qname",
      qtype: "dns.request.qtype",
      transport: "dns.request.transport",
      rcode: "dns.response.rcode",
      answers: "dns.response.answers",
    },
  },
  db: {
    view: "db_events",
    columns: {
      system: "db.request.system",
      host: "db.request.host",
      port: "db.request.port",
      user: "db.request.user",
      name: "db.request.name",
      kind: "db.request.kind",
      command: "db.request.command",
      statement: "db.request.statement",
      prepared: "db.request.prepared",
      request_bytes: "db.request.bytes",
      error_code: "db.response.error",
      response_bytes: "db.response.bytes",
    },
  },
  sign: {
    view: "sign_events",
    columns: {
      kind: "sign.request.kind",
      format: "sign.request.format",
      signer: "sign.request.signer",
      subject: "sign.request.subject",
      author: "sign.request.author",
      author_email: "sign.request.author_email",
      committer: "sign.request.committer",
      committer_email: "sign.request.committer_email",
      own: "sign.request.own",
      object: "sign.request.object",
      parents: "sign.request.parents",
      tag: "sign.request.tag",
      digest: "sign.request.digest",
      request_bytes: "sign.request.bytes",
    },
  },
  mcp: {
    view: "mcp_calls",
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
  model: {
    view: "model_calls",
    columns: {
      provider: "model.request.provider",
      api_family: "model.request.api_family",
      model: "model.request.model",
      operation: "model.request.operation",
      stream: "model.request.stream",
      messages_count: "model.request.messages_count",
      tools_count: "model.request.tools_count",
      request_body: "model.request.body",
      status: "model.response.status",
      stop_reason: "model.response.stop_reason",
      input_tokens: "model.response.input_tokens",
      cached_input_tokens: "model.response.cached_input_tokens",
      output_tokens: "model.response.output_tokens",
      estimated_cost_micros: "model.response.estimated_cost_micros",
      price_basis: "model.response.price_basis",
      tool_calls: "model.response.tool_calls",
    },
  },
  file: {
    view: "fs_events",
    columns: {
      operation: "file.activity.operation",
      path: "file.activity.path",
      path_class: "file.activity.path_class",
      name: "file.activity.name",
      ext: "file.activity.ext",
      byte_count: "file.activity.byte_count",
    },
  },
  process: {
    view: "exec_events",
    columns: {
      operation: "process.activity.operation",
      executable: "process.activity.executable",
      command: "process.activity.command",
      argv: "process.activity.argv",
      cwd: "process.activity.cwd",
      exit_code: "process.activity.exit_code",
    },
  },
  credential: {
    view: "substitution_events",
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

/** Columns that are fields of the event, by view. */
export const VIEW_FIELDS: ReadonlyMap<string, Columns> = new Map([
  [
    "security_events",
    {
      event_id: "common.event_id",
      event_type: "common.event_type",
      sequence: "common.sequence",
      ...COMMON,
    },
  ],
  ...Object.values(FAMILIES).map(({ view, columns }): [string, Columns] => [view, { ...SHARED, ...columns }]),
]);

/** View of a family's events. */
export function viewOf(family: EventFamily): string {
  return FAMILIES[family].view;
}

/** SELECT statements by view. */
const SELECTS: Record<string, string> = {
  security_events: `SELECT entries.sequence, entries.event_id, entries.event_type, ${FAMILY} AS family,
     ${selectFields(COMMON)},
     ${DECISION} AS decision, ${RULE} AS rule_id, event, entries.prev_hash, entries.hash
     FROM ${EVENTS_WITH_OUTCOMES}`,
  decisions: `SELECT sequence, event_id, record->>'$.decision' AS decision, record->>'$.rule.id' AS rule_id,
     record->>'$.rule.layer' AS layer, record->>'$.rule.reason' AS reason, record
     FROM (SELECT entries.sequence, entries.event_id, coalesce(outcome->'$.decision', record) AS record
       FROM ${EVENTS_WITH_OUTCOMES}) WHERE record IS NOT NULL`,
  ...Object.fromEntries(EVENT_FAMILIES.map((family) => [viewOf(family), selectFamily(family)])),
};

/** SELECT of a family's view, also for ledgers whose own views are older. */
export function selectFamily(family: EventFamily): string {
  return `SELECT entries.sequence, entries.event_id, ${DECISION} AS decision, ${RULE} AS rule_id,
     ${selectFields({ ...SHARED, ...FAMILIES[family].columns })},
     outcome->>'$.first_byte_ms' AS first_byte_ms, outcome->>'$.duration_ms' AS duration_ms,
     outcome->>'$.streamed_bytes' AS streamed_bytes,
     outcome->>'$.error' AS error
     FROM ${EVENTS_WITH_OUTCOMES} WHERE ${isOfFamily(family)}`;
}

function selectFields(columns: Columns): string {
  return Object.entries(columns).map(([column, path]) => `${valueOf(path)} AS ${column}`).join(", ");
}

/** A response is part of the event if it was known when that was appended, else of the outcome. */
function valueOf(path: string): string {
  const [, response] = path.match(/^\w+\.(response\..*)$/) ?? [];
  return response ? `coalesce(event->>'$.${path}', outcome->>'$.${response}')` : `event->>'$.${path}'`;
}

/** Drops and creates every view: definitions stored by an older sbx lack newer columns. */
const RECREATE_VIEWS = Object.entries(SELECTS).map(([view, select]) =>
  `DROP VIEW IF EXISTS ${view}; CREATE VIEW ${view} AS ${select};`
).join("\n");

/** Creates every view for one connection. They hide the file's views, which stay unchanged. */
export const CREATE_TEMP_VIEWS = Object.entries(SELECTS).map(([view, select]) =>
  `CREATE TEMP VIEW ${view} AS ${select};`
).join("\n");

// Making and upgrading a ledger.

/** Creates the current schema, or migrates an older one. Run it in one transaction. */
export const MIGRATE = `
CREATE TABLE IF NOT EXISTS ledger_info (id INTEGER PRIMARY KEY CHECK (id = 1), session_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
  sequence INTEGER PRIMARY KEY, event_id TEXT NOT NULL, event_type TEXT NOT NULL, event TEXT NOT NULL,
  prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
  decision TEXT, rule_id TEXT, record TEXT, record_hash TEXT
);
CREATE INDEX IF NOT EXISTS entries_by_id ON entries (event_id);
CREATE INDEX IF NOT EXISTS entries_blocked ON entries (sequence) WHERE decision = 'block';
CREATE INDEX IF NOT EXISTS entries_rare ON entries (sequence, event_type) WHERE event_type NOT IN ${FREQUENT};
CREATE TABLE IF NOT EXISTS outcomes (
  number INTEGER PRIMARY KEY, event_id TEXT NOT NULL, decision TEXT, outcome TEXT NOT NULL,
  prev_hash TEXT NOT NULL, hash TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS outcomes_by_event ON outcomes (event_id);
CREATE INDEX IF NOT EXISTS outcomes_blocked ON outcomes (event_id) WHERE decision = 'block';
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
CREATE TABLE IF NOT EXISTS ${STATEMENTS};
CREATE TABLE IF NOT EXISTS body_blobs (hash TEXT PRIMARY KEY, content_type TEXT, bytes BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS journal (
  number INTEGER PRIMARY KEY, kind TEXT NOT NULL, id TEXT NOT NULL, hash TEXT NOT NULL,
  prev_hash TEXT NOT NULL, link TEXT NOT NULL
);
CREATE INDEX IF NOT EXISTS journal_by_id ON journal (kind, id);
CREATE TABLE IF NOT EXISTS ledger_bound (id INTEGER PRIMARY KEY CHECK (id = 1), after_sequence INTEGER NOT NULL);
INSERT OR IGNORE INTO ledger_bound SELECT 1, coalesce(max(sequence), 0) FROM entries;
${RECREATE_VIEWS}
PRAGMA user_version = ${SCHEMA_VERSION};
`;

/**
 * Compares the version of a ledger with that of this sbx.
 *
 * @param userVersion value of `PRAGMA user_version`
 * @returns true if the ledger is older, or new and empty
 * @throws {SbxError} `ledger.version.conflict`: it is newer
 */
export function isOutdated(userVersion: number, path: string): boolean {
  if (userVersion <= SCHEMA_VERSION) return userVersion < SCHEMA_VERSION;
  throw new SbxError(
    "ledger.version.conflict",
    `the ledger ${path} has schema version ${userVersion}, and this sbx knows versions up to ${SCHEMA_VERSION}`,
    { hint: "use the newer sbx that wrote it; after an update, sbx stop and sbx start restart the service" },
  );
}
