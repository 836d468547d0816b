/** Entries of a register of sessions (docs/design/contracts/12-ledger.md §12, "Register of sessions"). */
import { z } from "zod";
import { canonicalJson } from "../../base/json/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { GENESIS } from "../../ledger/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { openSigned, REGISTER_TYPE } from "../../release/signing/mod.ts";
import { Heads, HEX64, SESSION_ID } from "../segment/mod.ts";

const base = {
  schema: z.literal("sbx.session-register.v1"),
  /** from 1, without holes */
  number: z.int().min(1),
  /** {@linkcode entryHash} of the entry before */
  previous: z.string().regex(HEX64),
  /** by the clock of the machine */
  at: z.iso.datetime(),
};
const session_id = z.string().regex(SESSION_ID);
const words = z.string().max(256);

/** A record that sbx removed. */
const Removal = z.strictObject({
  /**
   * `retention`: it was older than the home keeps; `person`: somebody removed it;
   * `room`: records took too much room
   */
  reason: z.enum(["retention", "person", "room"]),
  /** of the ledger at its end; null: no ledger was found, or it could not be read */
  heads: Heads.nullable(),
  by: z.strictObject({ user: words, client: words }).optional(),
});
export type Removal = z.infer<typeof Removal>;

/**
 * An entry. `found`: a session that the register lacked; `restarted`: entries before it could not be read.
 */
export const Entry = z.discriminatedUnion("kind", [
  z.strictObject({ ...base, kind: z.literal("begun"), session_id }),
  z.strictObject({ ...base, kind: z.literal("found"), session_id }),
  z.strictObject({ ...base, kind: z.literal("removed"), session_id, removal: Removal }),
  z.strictObject({ ...base, kind: z.literal("restarted"), lines: z.int().min(0) }),
]);
export type Entry = z.infer<typeof Entry>;

export function entryHash(entry: Entry): string {
  return blake3(canonicalJson(entry));
}

/** Opens a line of a register. @throws {SbxError} `register.invalid` */
export async function openEntry(line: string, key: PublicKey): Promise<Entry> {
  try {
    const { type, text, key: signer } = await openSigned(
      new TextEncoder().encode(`${line}\n`),
      [key],
      "the entry",
    );
    if (type === REGISTER_TYPE && signer.trusted) return Entry.parse(JSON.parse(text));
  } catch (cause) {
    throw new SbxError("register.invalid", "the entry is not one that this machine signed", { cause });
  }
  throw new SbxError("register.invalid", "the entry is not one that this machine signed");
}

/**
 * Follows entries in the order of their numbers.
 * @returns one line for each hole and each break of the chain
 */
export function checkEntries(entries: readonly Entry[]): string[] {
  const problems: string[] = [];
  let number = 0, hash = GENESIS;
  for (const entry of entries) {
    if (entry.number !== number + 1) {
      const [from, to] = [number + 1, entry.number - 1];
      problems.push(`${from === to ? `entry ${from} is` : `entries ${from} to ${to} are`} missing`);
    } else if (entry.previous !== hash) {
      problems.push(`entry ${entry.number} does not follow the one before it: one of them was replaced`);
    }
    if (entry.kind === "restarted") {
      problems.push(`entry ${entry.number} begins again: ${entry.lines} lines before it could not be read`);
    }
    [number, hash] = [entry.number, entryHash(entry)];
  }
  return problems;
}
