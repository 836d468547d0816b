/**
 * Segments: parts of a ledger on their way from a machine to a collector, signed and verified
 * (docs/guides/fleet.md).
 */
export { SEGMENT_BYTES_MAX } from "./limit.ts";
export type { Line } from "./line.ts";
export { headerOf, type OpenedSegment, openSegment, sameHeads, verifyChains, verifyRows } from "./read.ts";
export { Heads, HEX64, SegmentHeader, SESSION_ID } from "./schema.ts";
export type { BodyGrant } from "./withhold.ts";
export { makeSegment, type SegmentTerms } from "./write.ts";
