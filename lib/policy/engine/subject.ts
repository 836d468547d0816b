/** What an event is about, on one line: for tables, for asks, for messages. Takes events as JSON, of whatever version. */

type Fields = Record<string, unknown>;

/** A request and its status, a question and its answers, a program and its exit code. */
export function subjectLine(event: object): string {
  const fields = event as Fields;
  const family = String(objectOf(fields.common).event_type ?? "").split(".")[0];
  const own = objectOf(fields[family]);
  const say = SUBJECTS[family];
  return say ? say(own, objectOf(own.request), objectOf(own.response)) : JSON.stringify(own);
}

const SUBJECTS: Record<string, (own: Fields, request: Fields, response: Fields) => string> = {
  http: (_, { method, url }, { status, bytes }) => join(method, url, arrow(status), size(bytes)),
  dns: (_, { qtype, qname }, { rcode, answers }) =>
    join(qtype, qname, arrow((answers as string[] | undefined)?.join(" ") || rcode)),
  mcp: (_, { method, namespaced_tool_name, server_name }, { is_error }) =>
    join(method, namespaced_tool_name || server_name, is_error ? "→ error" : undefined),
  model: (
    _,
    { provider, model, operation },
    { status, input_tokens, output_tokens, estimated_cost_micros },
  ) =>
    join(
      provider,
      model,
      operation,
      arrow(status),
      input_tokens !== undefined && `${input_tokens} + ${output_tokens ?? 0} tokens`,
      estimated_cost_micros !== undefined && `$${(Number(estimated_cost_micros) / 1e6).toFixed(4)}`,
    ),
  credential: (own) => {
    const { outcome, provider, credential_ref, host, reason } = objectOf(own.substitution);
    return join(outcome, provider, String(credential_ref ?? "").slice(0, 26), host && `for ${host}`, reason);
  },
  file: (own) => activity(own),
  process: (own) => activity(own),
};

function activity(own: Fields): string {
  const { operation, command, executable, path, exit_code } = objectOf(own.activity);
  return join(
    operation,
    command ?? executable ?? path,
    exit_code === undefined ? undefined : `exit ${exit_code}`,
  );
}

function arrow(value: unknown): string | undefined {
  return value === undefined ? undefined : `→ ${value}`;
}

function size(bytes: unknown): string | undefined {
  return bytes === undefined ? undefined : `${bytes} B`;
}

function join(...parts: unknown[]): string {
  return parts.filter((part) => part !== undefined && part !== false && part !== "").join(" ");
}

function objectOf(value: unknown): Fields {
  return typeof value === "object" && value !== null ? value as Fields : {};
}
