/**
 * Tables of `session.db` (contracts.md §12). One row is written per event, and one more when it ends; everything else
 * that the contract names is a view of them (`views.ts`).
 */
import { VIEWS } from "./views.ts";

/** Events that reach the database in one transaction, and the most characters of their JSON. */
export const BATCH_ROWS = 500;
export const BATCH_CHARS = 8 * 1024 * 1024;

/** `prev_hash` of a chain's first row. */
export const GENESIS = "0".repeat(64);

/** Columns that every event has. */
export const PLAIN_COLUMNS = ["sequence", "event_id", "event_type", "event", "prev_hash", "hash"] as const;
/** And those of one that was decided on. */
export const EVENT_COLUMNS = [...PLAIN_COLUMNS, "decision", "rule_id", "record", "record_hash"] as const;
/** Outcomes are a chain of their own, beside that of the events that they end. */
export const OUTCOME_COLUMNS = ["number", "event_id", "decision", "outcome", "prev_hash", "hash"] as const;

/** A statement that adds rows. */
export interface Insert {
  into: string;
  columns: readonly string[];
  /** what happens with a row that is there already; without it that is an error */
  or?: "IGNORE" | "REPLACE";
}

/** Every way in which rows get into a ledger. */
export const INSERTS = {
  // Events without a decision have fewer columns to write, and each costs.
  plain: { into: "entries", columns: PLAIN_COLUMNS },
  decided: { into: "entries", columns: EVENT_COLUMNS },
  outcome: { into: "outcomes", columns: OUTCOME_COLUMNS },
  finding: {
    into: "findings",
    columns: ["finding_id", "event_id", "rule_id", "finding", "hash"],
    or: "IGNORE",
  },
  approval: { into: "approvals", columns: ["ask_id", "event_id", "record", "hash"], or: "REPLACE" },
  body: { into: "body_blobs", columns: ["hash", "content_type", "bytes"], or: "IGNORE" },
} satisfies Record<string, Insert>;

/** The SQL of an insert of so many rows. */
export function insertSql({ into, columns, or }: Insert, rows: number): string {
  const row = `(${columns.map(() => "?").join(",")})`;
  return `INSERT ${or ? `OR ${or} ` : ""}INTO ${into} (${columns.join(",")}) VALUES ${
    Array(rows).fill(row).join(",")
  }`;
}

/** Bytes of a database page: an event is most of a kilobyte, and of small pages twice as many are written. */
export const PAGE_BYTES = 16_384;

/** Milliseconds that a connection waits for another one: whoever opens or closes a ledger has it alone for a moment. */
export const BUSY_MS = 1000;

/** What each connection of the writer is told first. The log is folded into the file every 32 MB. */
export const PRAGMAS = `
PRAGMA page_size = ${PAGE_BYTES};
PRAGMA journal_mode = WAL;
PRAGMA wal_autocheckpoint = 2000;
PRAGMA synchronous = NORMAL;
PRAGMA busy_timeout = ${BUSY_MS};
`;

/** The whole schema, for one `executeMultiple`. */
export const SCHEMA = `
CREATE TABLE IF NOT EXISTS ledger_info (id INTEGER PRIMARY KEY CHECK (id = 1), session_id TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS entries (
  sequence INTEGER PRIMARY KEY, event_id TEXT NOT NULL, event_type TEXT NOT NULL, event TEXT NOT NULL,
  prev_hash TEXT NOT NULL, hash TEXT NOT NULL,
  decision TEXT, rule_id TEXT, record TEXT, record_hash TEXT
);
CREATE INDEX IF NOT EXISTS entries_by_id ON entries (event_id);
CREATE INDEX IF NOT EXISTS entries_blocked ON entries (sequence) WHERE decision = 'block';
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
CREATE TABLE IF NOT EXISTS body_blobs (hash TEXT PRIMARY KEY, content_type TEXT, bytes BLOB NOT NULL);
${VIEWS}
`;
