/**
 * Finding sinks: an audit file, OCSF over HTTP, OpenTelemetry, and a webhook. Delivery is
 * asynchronous, from a queue on disk.
 */
export { type AuditOptions, AuditSender } from "./audit.ts";
export { type Endpoint, HttpReceiver, tlsProblem } from "./http.ts";
export { actorOf, controlOf, OCSF_VERSION } from "./ocsf.ts";
export { evidenceOf } from "./ocsf_evidence.ts";
export { conventionsOf, otlpResource, toAttributes } from "./otlp.ts";
export { FindingSinks, type SinksOptions, type SinkStatus } from "./sinks.ts";
export {
  DeliveryError,
  EXPORTED_FIELDS,
  type Maker,
  partsOf,
  type RecordContext,
  type RecordState,
} from "./record.ts";
export { WEBHOOK_FORMS, type WebhookOptions } from "./webhook.ts";
