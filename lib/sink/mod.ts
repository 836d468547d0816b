/** Where findings go: an audit file, an HTTP sink as OCSF, OpenTelemetry. Nothing waits for them, and nothing is lost. */
export type { AuditOptions } from "./audit.ts";
export type { SinkStatus } from "./delivery.ts";
export { FindingSinks, type SinksOptions } from "./sinks.ts";
