/**
 * Findings as OTLP/HTTP logs in JSON. Not by OpenTelemetry's own exporters: they keep what waits in memory and drop it
 * when the receiver stays away, while here it comes from a queue on disk; and their serializer alone brings the SDKs for
 * logs, metrics and traces with it, for these forty lines.
 */
import type { Severity } from "../detection/mod.ts";
import { VERSION } from "../base/version/mod.ts";
import { Endpoint } from "./http.ts";
import type { FindingRecord } from "./record.ts";
import type { Sender } from "./sender.ts";

/** Records of one request. */
const BATCH = 100;

/** OpenTelemetry's severity numbers. */
const SEVERITY: Record<Severity, [number, string]> = {
  info: [9, "INFO"],
  low: [13, "WARN"],
  medium: [14, "WARN2"],
  high: [17, "ERROR"],
  critical: [21, "FATAL"],
};

/** An `ExportLogsServiceRequest`. */
export function otlpOf(records: readonly FindingRecord[]): Record<string, unknown> {
  return {
    resourceLogs: [{
      resource: { attributes: attributes({ "service.name": "sbx", "service.version": VERSION }) },
      scopeLogs: [{ scope: { name: "sbx.detection", version: VERSION }, logRecords: records.map(logRecord) }],
    }],
  };
}

function logRecord({ finding, common, subject = {} }: FindingRecord): Record<string, unknown> {
  const [severityNumber, severityText] = SEVERITY[finding.severity];
  // Nanoseconds do not fit into a number: OTLP's JSON has them as text.
  const timeUnixNano = `${common.timestamp_unix_ms}000000`;
  return {
    timeUnixNano,
    observedTimeUnixNano: timeUnixNano,
    severityNumber,
    severityText,
    eventName: "sbx.finding",
    body: { stringValue: finding.title },
    attributes: attributes({
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
      ...Object.fromEntries(Object.entries(subject).map(([key, value]) => [`sbx.subject.${key}`, value])),
    }),
  };
}

function attributes(values: Record<string, unknown>): unknown[] {
  return Object.entries(values).filter(([, value]) => value !== undefined)
    .map(([key, value]) => ({ key, value: anyValue(value) }));
}

function anyValue(value: unknown): Record<string, unknown> {
  if (Array.isArray(value)) return { arrayValue: { values: value.map(anyValue) } };
  if (typeof value === "boolean") return { boolValue: value };
  if (typeof value === "number") {
    return Number.isInteger(value) ? { intValue: String(value) } : { doubleValue: value };
  }
  return { stringValue: String(value) };
}

/** Posts to a collector, many findings a request. */
export class OtlpSender implements Sender {
  readonly batch = BATCH;
  readonly #endpoint: Endpoint;

  /** @param endpoint of the collector; `/v1/logs` is added unless it is there */
  constructor(endpoint: string) {
    const url = new URL(endpoint);
    if (!/\/v1\/logs\/?$/.test(url.pathname)) url.pathname = `${url.pathname.replace(/\/$/, "")}/v1/logs`;
    this.#endpoint = new Endpoint(url);
  }

  /** OTLP: what a collector rejects must not be sent again. */
  async send(records: readonly FindingRecord[], signal: AbortSignal): Promise<number> {
    return rejectedOf(await this.#endpoint.post(otlpOf(records), {}, signal));
  }
}

function rejectedOf(answer: string): number {
  try {
    return Number(JSON.parse(answer)?.partialSuccess?.rejectedLogRecords ?? 0) || 0;
  } catch {
    return 0;
  }
}
