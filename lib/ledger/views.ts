/**
 * What of `session.db` is worked out when it is read (contracts.md §12): the common fields of security_events, the
 * decisions, and the table of each family. All of it comes from the JSON that the hash chain covers, so no second copy
 * can be edited or disagree, and writing an event costs nothing for columns that nobody may ever ask for.
 */

/**
 * Events with how they ended. An event ends once: where a caller ended it twice both are kept, and the first holds.
 * Columns that both tables have are to be named in full.
 */
export const ENDED = `entries LEFT JOIN outcomes ON outcomes.number =
  (SELECT min(number) FROM outcomes AS own WHERE own.event_id = entries.event_id)`;

/** What holds of an event: what was decided of it last. */
export const DECISION = "coalesce(outcomes.decision, entries.decision)";

/** What stands before the dot of an event's type. */
export const FAMILY = "substr(entries.event_type, 1, instr(entries.event_type, '.') - 1)";

/** Fields of `common` that have a column of their own in security_events. */
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

/** Family table → event family, and the paths whose values are its columns. */
const FAMILIES: Record<string, { family: string; columns: Record<string, string> }> = {
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

const RULE = "coalesce(outcome->>'$.decision.rule.id', entries.rule_id)";

const families = Object.entries(FAMILIES).map(([name, { family, columns }]) =>
  view(
    name,
    `entries.sequence, entries.event_id, event->>'$.common.timestamp_unix_ms' AS timestamp_unix_ms,
     ${DECISION} AS decision, ${RULE} AS rule_id,
     event->>'$.common.process.pid' AS pid, event->>'$.common.process.executable' AS process,
     ${Object.entries(columns).map(([column, path]) => `${columnOf(path)} AS ${column}`).join(", ")},
     outcome->>'$.first_byte_ms' AS first_byte_ms, outcome->>'$.duration_ms' AS duration_ms,
     outcome->>'$.error' AS error`,
    `WHERE ${FAMILY} = '${family}'`,
  )
);

/** Every view, for one `executeMultiple`. */
export const VIEWS = [
  view(
    "security_events",
    `entries.sequence, entries.event_id, entries.event_type, ${FAMILY} AS family,
     ${COMMON.map((field) => `event->>'$.common.${field}' AS ${field}`).join(", ")},
     ${DECISION} AS decision, ${RULE} AS rule_id, event, entries.prev_hash, entries.hash`,
  ),
  view(
    "decisions",
    `sequence, event_id, record->>'$.decision' AS decision, record->>'$.rule.id' AS rule_id,
     record->>'$.rule.layer' AS layer, record->>'$.rule.reason' AS reason, record`,
    "WHERE record IS NOT NULL",
    `(SELECT entries.sequence, entries.event_id, coalesce(outcome->'$.decision', record) AS record FROM ${ENDED})`,
  ),
  ...families,
].join("\n");

function view(name: string, columns: string, where = "", from = ENDED): string {
  return `CREATE VIEW IF NOT EXISTS ${name} AS SELECT ${columns} FROM ${from} ${where};`;
}

/** A response is in the event itself where it was known when that was appended, and else in its outcome. */
function columnOf(path: string): string {
  const [, response] = path.match(/^\w+\.(response\..*)$/) ?? [];
  return response ? `coalesce(event->>'$.${path}', outcome->>'$.${response}')` : `event->>'$.${path}'`;
}
