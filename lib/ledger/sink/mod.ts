/** Finding sinks: an audit file, OCSF over HTTP, and OpenTelemetry. Delivery is asynchronous, from a queue on disk. */
export type { AuditOptions } from "./audit.ts";
export type { Endpoint } from "./http.ts";
export type { SinkStatus } from "./delivery.ts";
export type { Maker } from "./record.ts";
export { FindingSinks, type SinksOptions } from "./sinks.ts";
