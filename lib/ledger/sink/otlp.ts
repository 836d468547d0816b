/**
 * OpenTelemetry sink: findings as OTLP/HTTP logs in JSON. OpenTelemetry's own exporters are not used: they queue in
 * memory and drop records during an outage, and the serializer alone depends on the SDKs for logs, metrics and traces.
 */
import { parseJson } from "../../base/json/mod.ts";
import { deviceName } from "../../base/user/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import type { Severity } from "../../detection/mod.ts";
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
      resource: { attributes: toAttributes(resourceOf(ofMaker[0].made_by)) },
      scopeLogs: [{
        scope: { name: "sbx.detection", version: VERSION },
        logRecords: ofMaker.map(toLogRecord),
      }],
    })),
  };
}

function resourceOf(made_by: Maker | undefined): Record<string, unknown> {
  return {
    "service.name": "sbx",
    "service.version": VERSION,
    "host.name": made_by?.device ?? deviceName(),
    "user.name": made_by?.user,
    "sbx.client": made_by?.client,
  };
}

function toLogRecord({ finding, common, subject = {} }: FindingRecord): Record<string, unknown> {
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
      "sbx.profile.id": common.profile_id,
      "user.name": common.user_id,
      ...Object.fromEntries(Object.entries(subject).map(([key, value]) => [`sbx.subject.${key}`, value])),
    }),
  };
}

function toAttributes(values: Record<string, unknown>): unknown[] {
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
