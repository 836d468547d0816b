/**
 * Views of `session.db` (docs/design/contracts/12-ledger.md §12): common fields, decisions, and one table per
 * family. Every column is computed from the JSON covered by the hash chain, so that no copy can be edited or
 * disagree, and appending an event costs nothing for unread columns.
 */
import { EVENT_FAMILIES, type EventFamily } from "../event/mod.ts";

/**
 * Events with their outcomes. If an event has several outcomes, the first counts. Columns of both tables need their
 * table's name.
 */
export const EVENTS_WITH_OUTCOMES = `entries LEFT JOIN outcomes ON outcomes.number =
  (SELECT min(number) FROM outcomes AS own WHERE own.event_id = entries.event_id)`;

/** Final decision of an event. */
export const DECISION = "coalesce(outcomes.decision, entries.decision)";

/** Family of an event: the part of its type before the dot. */
export const FAMILY = "substr(entries.event_type, 1, instr(entries.event_type, '.') - 1)";

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
      status: "http.response.status",
      response_bytes: "http.response.bytes",
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
     outcome->>'$.error' AS error
     FROM ${EVENTS_WITH_OUTCOMES} WHERE ${FAMILY} = '${family}'`;
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
export const RECREATE_VIEWS = Object.entries(SELECTS).map(([view, select]) =>
  `DROP VIEW IF EXISTS ${view}; CREATE VIEW ${view} AS ${select};`
).join("\n");

/** Creates every view for one connection. They hide the file's views, which stay unchanged. */
export const CREATE_TEMP_VIEWS = Object.entries(SELECTS).map(([view, select]) =>
  `CREATE TEMP VIEW ${view} AS ${select};`
).join("\n");
