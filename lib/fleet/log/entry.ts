/** Entries of a store's log (docs/design/contracts/12-ledger.md §12, "Fleet"). */
import { z } from "zod";
import { HEX64 } from "../segment/mod.ts";

const hash = z.string().regex(HEX64);
const base = {
  schema: z.literal("sbx.fleet-log.v1"),
  /** from 1, without holes */
  number: z.int().min(1),
  /** by the clock of the receiver */
  at: z.iso.datetime(),
};
const machine = {
  machine_id: hash,
  /** BLAKE3 of the machine's file, which has a salt: the name cannot be guessed once it is erased */
  record: hash,
};

/**
 * An entry. `found`: a machine from before the log; `redacted`: a machine's name was erased; `erased` and
 * `exported`: BLAKE3 of the statement, a file of the store.
 */
export const LogEntry = z.discriminatedUnion("kind", [
  z.strictObject({ ...base, kind: z.literal("enrolled"), ...machine }),
  z.strictObject({ ...base, kind: z.literal("found"), ...machine }),
  z.strictObject({ ...base, kind: z.literal("redacted"), ...machine }),
  z.strictObject({
    ...base,
    kind: z.literal("ended"),
    machine_id: hash,
    end: z.enum(["retired", "revoked"]),
  }),
  z.strictObject({ ...base, kind: z.literal("erased"), statement: hash }),
  z.strictObject({ ...base, kind: z.literal("exported"), statement: hash }),
]);
export type LogEntry = z.infer<typeof LogEntry>;

/** An entry without the fields that its place gives it. */
export type NewEntry =
  | { kind: "enrolled" | "found" | "redacted"; machine_id: string; record: string }
  | { kind: "ended"; machine_id: string; end: "retired" | "revoked" }
  | { kind: "erased" | "exported"; statement: string };
