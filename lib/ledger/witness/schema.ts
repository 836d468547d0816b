/** Heads of a ledger as messages and files have them, and the ones that the service has witnessed. */
import { z } from "zod";

const hash = z.string().regex(/^[0-9a-f]{64}$/, "must be 64 hex characters");
const length = z.int().min(0);

/** Lengths of a ledger's three chains, and their final hashes: `ChainHeads`, in messages and files. */
export const Heads = z.strictObject({
  events: length,
  head_hash: hash,
  outcomes: length,
  outcome_hash: hash,
  journal: length,
  journal_hash: hash,
});
export type Heads = z.infer<typeof Heads>;

/** A difference between a record and the heads that the service has witnessed. */
export const WitnessProblem = z.strictObject({
  code: z.enum(["witness.lost", "witness.rewritten", "witness.contradicted"]).describe(
    "lost: the record ends before; rewritten: a row has another hash; contradicted: its writer reported both",
  ),
  reason: z.string(),
  at: z.iso.datetime().describe("time at which the service found it"),
});
export type WitnessProblem = z.infer<typeof WitnessProblem>;

/** Newest heads of one session's ledger that the service has seen. */
export const LedgerWitness = z.strictObject({
  schema: z.literal("sbx.ledger-witness.v1"),
  session_id: z.string(),
  at: z.iso.datetime().describe("time at which the service got these heads"),
  heads: Heads,
  problem: WitnessProblem.optional().describe("the first one; it stays"),
});
export type LedgerWitness = z.infer<typeof LedgerWitness>;
