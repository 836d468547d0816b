/** Finding sinks: an audit file, OCSF over HTTP, and OpenTelemetry. Delivery is asynchronous, from a queue on disk. */
export type { AuditOptions } from "./audit.ts";
export type { Endpoint } from "./http.ts";
export { FindingSinks, type SinksOptions, type SinkStatus } from "./sinks.ts";
export type { Maker, RecordContext, RecordState } from "./record.ts";
