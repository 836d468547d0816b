/** Heads of a ledger as messages have them. */
import { z } from "zod";

const hash = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex characters");
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
export type Heads = z.infer<typeof Heads>;
