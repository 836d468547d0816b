/** The record of a session without a machine. Loaded when the host first moves files of one. */
export { StillRecord } from "./record.ts";
