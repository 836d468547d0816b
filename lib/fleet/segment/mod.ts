/**
 * Segments: parts of a ledger on their way from a machine to a collector, signed and verified
 * (docs/guides/fleet.md).
 */
export {
  headerOf,
  type OpenedSegment,
  openSegment,
  openStored,
  SEGMENT_BYTES_MAX,
  verifyChains,
  verifyRows,
} from "./read.ts";
export { Heads, HEX64, type Line, Redaction, SegmentHeader, SESSION_ID } from "./schema.ts";
export { type BodyGrant, makeSegment, type SegmentTerms } from "./write.ts";
export { redactSegment, type RowTest } from "./redact.ts";
