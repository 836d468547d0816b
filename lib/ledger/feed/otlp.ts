/** OpenTelemetry: each event as a log record, and a session as a trace, by OTLP/HTTP in JSON. */
import { parseJson } from "../../base/json/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { HttpReceiver, otlpResource, toAttributes } from "../sink/mod.ts";
import type { FeedSender } from "./feed.ts";
import type { Authorize } from "./http.ts";
import type { FeedRecord, PartedRecord } from "./record.ts";
import { attributesOf, idOf, SpanBuilder } from "./span.ts";

/** Records of a request. */
const BATCH = 200;
/** OpenTelemetry's severities. */
const INFO = [9, "INFO"] as const;
const WARN = [13, "WARN"] as const;

export type Signal = "logs" | "traces";

/** Events for a collector of OpenTelemetry. */
export class OtlpFeedSender implements FeedSender {
  readonly batch = BATCH;
  readonly #spans = new SpanBuilder();
  readonly #receivers: Partial<Record<Signal, HttpReceiver>>;

  /** @param address of the collector; `/v1/logs` and `/v1/traces` are below it */
  constructor(address: string, signals: readonly Signal[] = ["logs", "traces"], authorize?: Authorize) {
    this.#receivers = Object.fromEntries(signals.map((signal) => {
      const url = new URL(address);
      url.pathname = `${url.pathname.replace(/\/+$/, "")}/v1/${signal}`;
      return [signal, new HttpReceiver(url, authorize)];
    }));
  }

  async send(records: readonly FeedRecord[], signal: AbortSignal): Promise<number> {
    const { logs, traces } = this.#receivers;
    // In the order of the ledger: a pid is another program later.
    const made = (records as PartedRecord[]).map((record) => ({ record, ...this.#spans.spanOf(record) }));
    let refused = 0;
    if (logs) {
      const items = made.map(({ record, id }) => ({ record, item: toLogRecord(record, id) }));
      const body = { resourceLogs: byResource(items, "scopeLogs", "logRecords") };
      refused = countRejected(await logs.post(body, {}, signal), "rejectedLogRecords", items.length);
    }
    const spans = made.flatMap(({ record, span }) => span ? [{ record, item: span }] : []);
    if (traces && spans.length > 0) {
      const body = { resourceSpans: byResource(spans, "scopeSpans", "spans") };
      const count = countRejected(await traces.post(body, {}, signal), "rejectedSpans", spans.length);
      refused = Math.max(refused, count);
    }
    return refused;
  }
}

interface Item {
  record: PartedRecord;
  item: Record<string, unknown>;
}

/** Puts the items of each maker below a resource. */
function byResource(items: readonly Item[], scopes: string, name: string): unknown[] {
  const groups = Map.groupBy(items, ({ record }) => JSON.stringify(record.parts.made_by ?? null));
  return [...groups.values()].map((ofMaker) => ({
    resource: { attributes: toAttributes(otlpResource(ofMaker[0].record.parts.made_by)) },
    [scopes]: [{ scope: { name: "sbx.events", version: VERSION }, [name]: ofMaker.map(({ item }) => item) }],
  }));
}

function toLogRecord(record: PartedRecord, spanId: string): Record<string, unknown> {
  const [severityNumber, severityText] = record.decision === "block" ? WARN : INFO;
  const timeUnixNano = `${record.time}000000`;
  return {
    timeUnixNano,
    observedTimeUnixNano: timeUnixNano,
    severityNumber,
    severityText,
    eventName: `sbx.${record.event_type}`,
    body: { stringValue: record.event_type },
    traceId: idOf(record.session_id, 32),
    spanId,
    attributes: [
      ...attributesOf(record),
      ...toAttributes({ "sbx.is_update": record.is_update || undefined }),
    ],
  };
}

/** Records that a collector took no part of; a number that cannot be is not believed. */
function countRejected(response: string, field: string, most: number): number {
  try {
    const answer = parseJson(response) as { partialSuccess?: Record<string, unknown> } | null;
    const count = Math.floor(Number(answer?.partialSuccess?.[field] ?? 0));
    return count > 0 ? Math.min(count, most) : 0;
  } catch {
    return 0;
  }
}
