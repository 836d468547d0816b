/**
 * Receiving from a machine's drop point: a stream or a database between machines and the receiver
 * (docs/guides/fleet.md).
 */
export { openSource, type PullOptions } from "./pull.ts";
