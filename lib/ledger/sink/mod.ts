/** Finding sinks: an audit file, OCSF over HTTP, OpenTelemetry, and a webhook. Delivery is asynchronous, from a queue on disk. */
export type { AuditOptions } from "./audit.ts";
export type { Endpoint } from "./http.ts";
export { FindingSinks, type SinksOptions, type SinkStatus } from "./sinks.ts";
export type { Maker, RecordContext, RecordState } from "./record.ts";
export { WEBHOOK_FORMS, type WebhookOptions } from "./webhook.ts";
