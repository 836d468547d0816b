/** One-line subject of an event, for tables, asks and messages. Accepts events as JSON, of any schema version. */
import { objectOf } from "../../base/object/mod.ts";

type Fields = Record<string, unknown>;

/** Formats the subject of an event: request and status, question and answers, program and exit code. */
export function subjectLine(event: object): string {
  const fields = event as Fields;
  const family = String(objectOf(fields.common).event_type ?? "").split(".")[0];
  const body = objectOf(fields[family]);
  const format = SUBJECTS[family];
  if (!format) return JSON.stringify(body);
  const line = format(body, objectOf(body.request), objectOf(body.response));
  if (family !== "file" && family !== "process") return line;
  return join(line, noteOf(objectOf(objectOf(fields.common).labels)));
}

/** Remarks of a guest's activity report on itself, and the number of events that this one stands for. */
function noteOf({ from, folded, failed, activity, why }: Fields): string | undefined {
  if (from !== undefined) return `(from ${from})`;
  if (folded !== undefined) return `(${folded} times${Number(failed) > 0 ? `, ${failed} failed` : ""})`;
  if (activity !== undefined) return `(report: ${activity}${why === undefined ? "" : `, ${why}`})`;
}

/** {@linkcode subjectLine} of a listed event, with an error of its outcome in parentheses. */
export function subjectWithError(event: object): string {
  const { error } = objectOf((event as Fields).outcome);
  return error === undefined ? subjectLine(event) : `${subjectLine(event)} (${error})`;
}

const SUBJECTS: Record<string, (body: Fields, request: Fields, response: Fields) => string> = {
  http: (_, { method, url, git }, { status, bytes }) =>
    join(method, url, formatGit(git), formatStatus(status), formatSize(bytes)),
  dns: (_, { qtype, qname }, { rcode, answers }) =>
    join(qtype, qname, formatStatus((answers as string[] | undefined)?.join(" ") || rcode)),
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
      formatStatus(status),
      input_tokens !== undefined && `${input_tokens} + ${output_tokens ?? 0} tokens`,
      formatCost(estimated_cost_micros, input_tokens ?? output_tokens),
    ),
  credential: (body) => {
    const { outcome, provider, credential_ref, host, reason } = objectOf(body.substitution);
    return join(outcome, provider, String(credential_ref ?? "").slice(0, 26), host && `for ${host}`, reason);
  },
  file: formatActivity,
  process: formatActivity,
};

/** Estimated cost; a call with tokens and without a cost is of a model or tier whose price is unknown. */
function formatCost(micros: unknown, tokens: unknown): string | undefined {
  if (micros !== undefined) return `$${(Number(micros) / 1e6).toFixed(4)}`;
  return tokens === undefined ? undefined : "at an unknown price";
}

/** `(update refs/heads/main)`: the changes of a push. */
function formatGit(git: unknown): string | undefined {
  const { updates } = objectOf(git);
  if (!Array.isArray(updates) || updates.length === 0) return undefined;
  return `(${updatesLine(updates.map((update) => objectOf(update)))})`;
}

/** Updates of refs on one line. */
export function updatesLine(updates: readonly { kind?: unknown; ref?: unknown }[]): string {
  return updates.map(({ kind, ref }) => `${kind} ${ref}`).join(", ");
}

function formatActivity(body: Fields): string {
  const { operation, command, executable, path, exit_code } = objectOf(body.activity);
  return join(
    operation,
    command ?? executable ?? path,
    exit_code === undefined ? undefined : `exit ${exit_code}`,
  );
}

function formatStatus(value: unknown): string | undefined {
  return value === undefined ? undefined : `→ ${value}`;
}

function formatSize(bytes: unknown): string | undefined {
  return bytes === undefined ? undefined : `${bytes} B`;
}

function join(...parts: unknown[]): string {
  return parts.filter((part) => part !== undefined && part !== false && part !== "").join(" ");
}
