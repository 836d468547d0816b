/**
 * OpenTelemetry sink: findings as OTLP/HTTP logs in JSON. OpenTelemetry's own exporters are not used:
 * they queue in memory and drop records during an outage, and the serializer alone depends on the
 * SDKs for logs, metrics and traces.
 */
import { parseJson } from "../../base/json/mod.ts";
import { deviceName } from "../../base/user/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { Severity } from "../../detection/mod.ts";
import { type EventFamily, type EventProcess, familyOf } from "../../event/mod.ts";
import { type Endpoint, HttpReceiver } from "./http.ts";
import type { FindingRecord, Maker, Sender } from "./record.ts";

/** Maximum number of records per request. */
const BATCH = 100;

/** OpenTelemetry's severity numbers. */
const SEVERITY: Record<Severity, [number, string]> = {
  info: [9, "INFO"],
  low: [13, "WARN"],
  medium: [14, "WARN2"],
  high: [17, "ERROR"],
  critical: [21, "FATAL"],
};

/** Builds an `ExportLogsServiceRequest`, with a resource for each maker of sessions. */
export function otlpOf(records: readonly FindingRecord[]): Record<string, unknown> {
  return {
    resourceLogs: [...Map.groupBy(records, ({ made_by }) => JSON.stringify(made_by ?? null)).values()].map((
      ofMaker,
    ) => ({
      resource: { attributes: toAttributes(otlpResource(ofMaker[0].made_by)) },
      scopeLogs: [{
        scope: { name: "sbx.detection", version: VERSION },
        logRecords: ofMaker.map(toLogRecord),
      }],
    })),
  };
}

/** Attributes of the resource that makes records: this sbx, for the maker of a session. */
export function otlpResource(made_by: Maker | undefined): Record<string, unknown> {
  return {
    "service.name": "sbx",
    "service.version": VERSION,
    "host.name": made_by?.device ?? deviceName(),
    "user.name": made_by?.user,
    "sbx.client": made_by?.client,
  };
}

function toLogRecord(
  { finding, common, decision, vm_name, is_update, state, exception, subject = {} }: FindingRecord,
): Record<string, unknown> {
  const [severityNumber, severityText] = SEVERITY[finding.severity];
  // Nanoseconds exceed a safe integer; OTLP's JSON encodes them as a string.
  const timeUnixNano = `${common.timestamp_unix_ms}000000`;
  return {
    timeUnixNano,
    observedTimeUnixNano: timeUnixNano,
    severityNumber,
    severityText,
    eventName: "sbx.finding",
    body: { stringValue: finding.title },
    ...(common.trace_id !== undefined && { traceId: common.trace_id }),
    attributes: toAttributes({
      "sbx.finding.id": finding.finding_id,
      "sbx.finding.severity": finding.severity,
      "sbx.finding.confidence": finding.confidence,
      "sbx.finding.tags": finding.tags,
      "sbx.rule.id": finding.rule_id,
      "sbx.pack.id": finding.pack_id,
      "sbx.sigma.id": finding.sigma_id,
      "sbx.event.id": common.event_id,
      "sbx.event.type": common.event_type,
      "sbx.event.sequence": common.sequence,
      "sbx.session.id": common.session_id,
      "sbx.vm.id": common.vm_id,
      "sbx.vm.name": vm_name,
      "sbx.decision": decision?.outcome,
      "sbx.decision.rule.id": decision?.rule_id,
      "sbx.decision.layer": decision?.layer,
      "sbx.decision.answered_by": decision?.answered_by,
      "sbx.finding.is_update": is_update,
      "sbx.finding.state": state?.status,
      "sbx.finding.verdict": state?.verdict,
      "sbx.finding.state.reason": state?.reason,
      "sbx.finding.state.by": state?.by.user,
      "sbx.finding.exception": exception,
      "sbx.profile.id": common.profile_id,
      "user.name": common.user_id,
      ...conventionsOf(familyOf(common.event_type), subject, common.process),
      ...Object.fromEntries(Object.entries(subject).map(([key, value]) => [`sbx.subject.${key}`, value])),
    }),
  };
}

type Fields = Record<string, unknown>;

/** Names of the conventions for operations that an API names otherwise; the others are theirs already. */
const GEN_AI_OPERATIONS: Record<string, string> = {
  "chat.completions": "chat",
  completions: "text_completion",
  converse: "chat",
  generate: "text_completion",
  generateContent: "generate_content",
  messages: "chat",
  responses: "chat",
};
const GEN_AI_PROVIDERS: Record<string, string> = {
  azure: "azure.ai.inference",
  bedrock: "aws.bedrock",
  google: "gcp.gen_ai",
  mistral: "mistral_ai",
  xai: "x_ai",
};

/**
 * Attributes of OpenTelemetry's semantic conventions for each family, from the
 * fields that may leave the machine.
 */
const CONVENTIONS: Partial<Record<EventFamily, (subject: Fields) => Fields>> = {
  http: ({ method, scheme, host, port, path, bytes, status }) => ({
    "http.request.method": method,
    "http.request.body.size": bytes,
    "http.response.status_code": status,
    "server.address": host,
    "server.port": port,
    "url.path": path,
    "url.scheme": scheme,
  }),
  dns: ({ qname }) => ({ "dns.question.name": qname }),
  db: ({ system, host, port, name, command }) => ({
    "db.namespace": name,
    "db.operation.name": command,
    "db.system.name": system === "postgres" ? "postgresql" : system,
    "server.address": host,
    "server.port": port,
  }),
  mcp: ({ method, tool_name }) => ({
    "gen_ai.operation.name": method === "tools/call" ? "execute_tool" : undefined,
    "gen_ai.tool.name": tool_name || undefined,
    "mcp.method.name": method,
  }),
  model: ({ provider, model, operation, status, input_tokens, cached_input_tokens, output_tokens }) => ({
    "gen_ai.operation.name": GEN_AI_OPERATIONS[String(operation)] ?? operation,
    "gen_ai.provider.name": GEN_AI_PROVIDERS[String(provider)] ?? provider,
    "gen_ai.request.model": model,
    "gen_ai.usage.cache_read.input_tokens": cached_input_tokens,
    "gen_ai.usage.input_tokens": input_tokens,
    "gen_ai.usage.output_tokens": output_tokens,
    "http.response.status_code": status,
  }),
  file: ({ path, name, ext, byte_count }) => ({
    "file.extension": ext || undefined,
    "file.name": name,
    "file.path": path,
    "file.size": byte_count,
  }),
  process: ({ executable, command, cwd, exit_code }) => ({
    "process.command_line": command,
    "process.executable.name": executable,
    "process.exit.code": exit_code,
    "process.working_directory": cwd,
  }),
  credential: ({ host }) => ({ "server.address": host }),
};

/** Attributes of the conventions for an event and its program. */
export function conventionsOf(family: EventFamily, subject: Fields, process?: EventProcess): Fields {
  return { ...processAttributes(process), ...CONVENTIONS[family]?.(subject) };
}

/** The guest's program of an event; a pid of 0 is one that no one knows. */
function processAttributes(process: EventProcess | undefined): Fields {
  if (!process) return {};
  const { pid, ppid, executable, command, container } = process;
  return {
    "process.pid": pid > 0 ? pid : undefined,
    "process.parent_pid": ppid > 0 ? ppid : undefined,
    "process.executable.name": executable,
    "process.command_line": command,
    "container.id": container?.id,
    "container.image.name": container?.image,
    "container.name": container?.name,
  };
}

/** Attributes in OTLP's JSON; a value that is absent has none. */
export function toAttributes(values: Record<string, unknown>): unknown[] {
  return Object.entries(values).filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ key, value: toAnyValue(value) }));
}

function toAnyValue(value: unknown): Record<string, unknown> {
  if (Array.isArray(value)) return { arrayValue: { values: value.map(toAnyValue) } };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "number") {
    return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  }
  return { stringValue: String(value) };
}

/** Posts findings to a collector in batches. */
export class OtlpSender implements Sender {
  readonly batch = BATCH;
  readonly #receiver: HttpReceiver;

  /** @param address URL of the collector; `/v1/logs` is appended if missing */
  constructor({ endpoint, authorize }: Endpoint) {
    const url = new URL(endpoint);
    if (!/\/v1\/logs\/?$/.test(url.pathname)) url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/logs`;
    this.#receiver = new HttpReceiver(url, authorize);
  }

  /** Sends records; by the OTLP specification, rejected records are not sent again. */
  async send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number> {
    return countRejected(await this.#receiver.post(otlpOf(records), {}, signal));
  }
}

function countRejected(response: string): number {
  try {
    const answer = parseJson(response) as { partialSuccess?: { rejectedLogRecords?: unknown } } | null;
    return Number(answer?.partialSuccess?.rejectedLogRecords ?? 0) || 0;
  } catch {
    return 0;
  }
}
