/** Header of a segment: a machine signs it for part of a ledger (docs/design/contracts/12-ledger.md §12). */
import { z } from "zod";

/** Format of machine ids (SHA-256 of their key) and of hashes. */
export const HEX64 = /^[0-9a-f]{64}$/;
/** Format of session ids. */
export const SESSION_ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/;

const hash = z.string().regex(HEX64, "must be 64 hex characters");
const length = z.int().min(0);

/** Lengths of a ledger's three chains, and their final hashes. */
export const Heads = z.strictObject({
  events: length,
  head_hash: hash,
  outcomes: length,
  outcome_hash: hash,
  journal: length,
  journal_hash: hash,
});

export const SegmentHeader = z.strictObject({
  schema: z.literal("sbx.ledger-segment.v1"),
  machine_id: hash,
  session_id: z.string().regex(SESSION_ID, "must be a session's id"),
  /** ISO 8601, by the clock of the machine */
  made_at: z.iso.datetime(),
  /** sequence of the last event whose decision is not in the chain; null: no such event */
  bound_after: length.nullable(),
  from: Heads,
  to: Heads,
  /** BLAKE3 of the compressed rows, and their size in `bytes` before compression */
  body: z.strictObject({ hash, bytes: length }),
});
export type SegmentHeader = z.infer<typeof SegmentHeader>;
