/**
 * Receiving from where machines put their segments: a stream or a database between them and the receiver
 * (docs/guides/fleet.md).
 */
export { openSource, type PullOptions } from "./pull.ts";
