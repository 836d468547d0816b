/**
 * Sums of a ledger up to given lengths of its chains: the same rows give the
 * same sums, also once it is longer.
 */
import type { Client, SqlValue } from "../database.ts";
import { FAMILY } from "../schema.ts";
import type { ChainLengths } from "./rows.ts";
import { parseJson, selectText, type TextRow, withLedger } from "./open.ts";

/**
 * Rows of one list of the evidence; a longer one states the number of the rest. Full lists still fit an
 * envelope.
 */
export const EVIDENCE_ROWS_MAX = 1000;
/** Longest text of one value, in characters: names are chosen by guests and servers. */
const TEXT_MAX = 255;

/** One list, in a fixed order, and how many rows did not fit. */
export interface EvidenceList {
  rows: Record<string, string | number>[];
  omitted: number;
}

/** A session's activity, in sums. */
export interface Evidence {
  /** number of events by family and final decision; `observed` for events that nothing could stop */
  decisions: EvidenceList;
  /** hosts of HTTP requests: how many were made, answered and blocked */
  hosts: EvidenceList;
  /** names asked of DNS */
  names: EvidenceList;
  /** servers of MCP calls */
  mcp_servers: EvidenceList;
  /** credentials by ref, never the secret */
  credentials: EvidenceList;
  findings: EvidenceList;
  /** times for which the record of the guest's programs has a gap */
  gaps: EvidenceList;
}

/**
 * The final decision of each event, of the rows up to the lengths. Parameters: outcomes, outcomes, events.
 */
const DECIDED = `(SELECT entries.*, ${FAMILY} AS family, own.outcome AS outcome,
    coalesce(own.decision, entries.decision, 'observed') AS final
  FROM entries LEFT JOIN outcomes AS own ON own.number =
    (SELECT min(number) FROM outcomes WHERE outcomes.event_id = entries.event_id AND number <= ?)
  WHERE sequence <= ?)`;

const BLOCKED = "sum(final = 'block')";

/** A list: its columns, and the rows as a subquery in the order of its columns. */
interface Question {
  texts: string[];
  numbers: string[];
  /** of {@linkcode DECIDED} */
  select: string;
}

const QUESTIONS: Record<Exclude<keyof Evidence, "findings">, Question> = {
  decisions: {
    texts: ["family", "decision"],
    numbers: ["events"],
    select: `SELECT family, final AS decision, count(*) AS events FROM ${DECIDED} GROUP BY family, final`,
  },
  hosts: {
    texts: ["scheme", "host"],
    numbers: ["port", "requests", "answered", "blocked"],
    select: `SELECT event->>'$.http.request.scheme' AS scheme, event->>'$.http.request.host' AS host,
        event->>'$.http.request.port' AS port, count(*) AS requests,
        sum(outcome->>'$.response.status' IS NOT NULL) AS answered, ${BLOCKED} AS blocked
      FROM ${DECIDED} WHERE family = 'http' GROUP BY 1, 2, 3`,
  },
  names: {
    texts: ["name"],
    numbers: ["queries", "blocked"],
    select: `SELECT event->>'$.dns.request.qname' AS name, count(*) AS queries, ${BLOCKED} AS blocked
      FROM ${DECIDED} WHERE family = 'dns' GROUP BY 1`,
  },
  mcp_servers: {
    texts: ["server"],
    numbers: ["calls", "blocked"],
    select: `SELECT event->>'$.mcp.request.server_name' AS server, count(*) AS calls, ${BLOCKED} AS blocked
      FROM ${DECIDED} WHERE event_type = 'mcp.tool_call' GROUP BY 1`,
  },
  credentials: {
    texts: ["credential_ref", "provider", "host", "outcome"],
    numbers: ["events"],
    select: `SELECT event->>'$.credential.substitution.credential_ref' AS credential_ref,
        event->>'$.credential.substitution.provider' AS provider,
        event->>'$.credential.substitution.host' AS host,
        event->>'$.credential.substitution.outcome' AS outcome, count(*) AS events
      FROM ${DECIDED} WHERE family = 'credential' GROUP BY 1, 2, 3, 4`,
  },
  gaps: {
    texts: ["why"],
    numbers: ["sequence", "timestamp_unix_ms"],
    select: `SELECT event->>'$.common.labels.why' AS why, sequence,
        event->>'$.common.timestamp_unix_ms' AS timestamp_unix_ms
      FROM ${DECIDED} WHERE event_type = 'process.exit' AND event->>'$.common.labels.activity' = 'gap'`,
  },
};

const FINDINGS: Question = {
  texts: ["pack_id", "rule_id", "severity"],
  numbers: ["findings"],
  select: `SELECT pack_id, rule_id, severity, count(*) AS findings FROM findings
    WHERE finding_id IN (SELECT id FROM journal WHERE kind = 'finding' AND number <= ?) GROUP BY 1, 2, 3`,
};

/** Sums up a ledger. Run {@linkcode verifyLedger} first: sums of a changed ledger are worth nothing. */
export function readEvidence(path: string, { events, outcomes, journal }: ChainLengths): Promise<Evidence> {
  return withLedger(path, async (client) => {
    const lists = await Promise.all(
      Object.entries(QUESTIONS).map(async ([name, question]) => [
        name,
        await ask(client, question, [outcomes, events]),
      ]),
    );
    return { ...Object.fromEntries(lists), findings: await ask(client, FINDINGS, [journal]) };
  });
}

/**
 * The statements of the host (docs/design/contracts/12-ledger.md §12), in order, of the first `journal` rows
 * of the journal.
 */
export function readStatements<T>(path: string, journal: number): Promise<T[]> {
  return withLedger(path, async (client) => {
    const rows = await selectText(
      client,
      ["record"],
      `FROM statements JOIN journal ON journal.kind = 'statement' AND journal.id = statement_id
        WHERE number <= ? ORDER BY number`,
      [journal],
    );
    return rows.flatMap(({ record }) => parseJson<T>(record) ?? []);
  });
}

async function ask(
  client: Client,
  { texts, numbers, select }: Question,
  args: SqlValue[],
): Promise<EvidenceList> {
  const columns = [...texts, ...numbers];
  const rows = await selectText(
    client,
    columns,
    `FROM (${select}) ORDER BY ${columns.map((_, at) => at + 1).join(", ")} LIMIT ${EVIDENCE_ROWS_MAX}`,
    args,
  );
  const [{ total }] = await selectText(
    client,
    ["total"],
    `FROM (SELECT count(*) AS total FROM (${select}))`,
    args,
  );
  return {
    rows: rows.map((row) => toRow(row, texts, numbers)),
    omitted: Number(total) - rows.length,
  };
}

function toRow(row: TextRow, texts: string[], numbers: string[]): Record<string, string | number> {
  return Object.fromEntries([
    ...texts.map((name) => [name, (row[name] ?? "").slice(0, TEXT_MAX)]),
    ...numbers.map((name) => [name, Number(row[name] ?? 0)]),
  ]);
}
