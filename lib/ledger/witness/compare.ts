import type { Heads, WitnessProblem } from "./schema.ts";

/** The chains of a ledger, by their fields in heads. */
const CHAINS = [
  { noun: "event", length: "events", hash: "head_hash" },
  { noun: "outcome", length: "outcomes", hash: "outcome_hash" },
  { noun: "row of the journal", length: "journal", hash: "journal_hash" },
] as const;

/** A difference between a record and the heads that the service has witnessed. */
export type Break = Omit<WitnessProblem, "at">;

/**
 * Compares a record with the heads that the service has witnessed: each chain must have the row with that
 * number and that hash.
 *
 * @param then hashes that the record has at the witnessed lengths
 * @param now lengths of the record
 */
export function findBreak(
  witnessed: Heads,
  then: Pick<Heads, "head_hash" | "outcome_hash" | "journal_hash">,
  now: Pick<Heads, "events" | "outcomes" | "journal">,
): Break | undefined {
  for (const { noun, length, hash } of CHAINS) {
    if (now[length] < witnessed[length]) {
      return {
        code: "witness.lost",
        reason: `it ends at ${noun} ${now[length]}, and the service had witnessed ${noun} ${
          witnessed[length]
        }: its end was removed, or lost in a crash of this host`,
      };
    }
    if (then[hash] !== witnessed[hash]) {
      return {
        code: "witness.rewritten",
        reason: `${noun} ${witnessed[length]} is not the one that the service had witnessed: ` +
          "the record was rewritten",
      };
    }
  }
}

/** Finds a chain of which newer heads take earlier ones back: chains only grow. */
export function findContradiction(before: Heads, next: Heads): Break | undefined {
  for (const { noun, length, hash } of CHAINS) {
    const isShorter = next[length] < before[length];
    if (!isShorter && (next[length] > before[length] || next[hash] === before[hash])) continue;
    return {
      code: "witness.contradicted",
      reason: isShorter
        ? `its writer reported ${noun} ${next[length]} as the last one, after ${noun} ${before[length]}`
        : `its writer reported two different ends of the record, both at ${noun} ${before[length]}`,
    };
  }
}
