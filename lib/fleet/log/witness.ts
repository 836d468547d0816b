/**
 * A machine's witness: the last state of its collector's log that it saw. Each later state must begin with
 * it, so that no one who can write the store takes a machine out, or an erasure back, unseen.
 */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { HEX64 } from "../segment/mod.ts";
import { type LogAnswer, openHead } from "./log.ts";
import { isConsistent } from "./tree.ts";

const State = {
  /** entries of the log, and root of their tree */
  size: z.int().min(0),
  root: z.string().regex(HEX64),
  /** envelope that the store signed; null: the machine read the log itself */
  head: z.string().max(4096).nullable(),
  at: z.iso.datetime(),
};

/** File of the witness. */
export const Witness = z.strictObject({
  schema: z.literal("sbx.fleet-witness.v1"),
  /** collector, without credentials */
  target: z.string(),
  /** id of the store's key; null: the log was read without it */
  key_id: z.string().regex(HEX64).nullable(),
  ...State,
  /** the first state that did not follow: with both heads, proof against the store */
  problem: z.strictObject({ ...State, key_id: z.string().regex(HEX64).nullable(), detail: z.string() })
    .optional(),
});
export type Witness = z.infer<typeof Witness>;

/** File of a home's witness. @param folder of shipping */
export function witnessPath(folder: string): string {
  return join(folder, "witness.json");
}

/** Reads the witness of a home; `undefined`: it has none for this collector. */
export async function readWitness(folder: string, target?: string): Promise<Witness | undefined> {
  const text = await ifFound(Deno.readTextFile(witnessPath(folder)));
  const witness = text === undefined ? undefined : Witness.parse(JSON.parse(text));
  return target === undefined || witness?.target === target ? witness : undefined;
}

/**
 * Asks a collector for its log, and keeps the state if it follows the one before.
 *
 * @param ask answers for a state that was seen; `undefined`: the collector has no log
 * @throws {SbxError} `fleet.log.invalid`; of `ask`
 */
export async function witnessLog(
  folder: string,
  target: string,
  ask: (seen: { size: number; root: string }) => Promise<LogAnswer | undefined>,
): Promise<Witness | undefined> {
  const before = await readWitness(folder, target);
  const answer = await ask({ size: before?.size ?? 0, root: before?.root ?? EMPTY });
  if (!answer) {
    if (!before) return undefined;
    throw new SbxError("fleet.log.invalid", `the collector ${target} shows no log any more`, {
      hint: "an administrator checks the store: sbx-admin fleet verify DIR",
    });
  }
  const key_id = answer.signed?.key.id ?? null;
  const head = answer.signed?.head ?? null;
  // The signature is of the state that is kept, and not of another one.
  const state = answer.signed ? await openHead(answer.signed.head, answer.signed.key) : answer;
  const seen = { size: state.size, root: state.root, head, at: new Date().toISOString() };
  const problem = before && problemOf(before, key_id, state, answer.proof);
  if (before && problem === undefined && before.size === state.size) return before;
  const witness: Witness = before && problem !== undefined
    ? { ...before, problem: before.problem ?? { ...seen, key_id, detail: problem } }
    : {
      schema: "sbx.fleet-witness.v1",
      target,
      key_id,
      ...seen,
      ...(before?.problem && { problem: before.problem }),
    };
  await writeAtomic(witnessPath(folder), `${JSON.stringify(witness, null, 2)}\n`);
  return witness;
}

/** Root that stands for no state. */
const EMPTY = "0".repeat(64);

function problemOf(
  before: Witness,
  key_id: string | null,
  after: { size: number; root: string },
  proof: readonly string[] | undefined,
): string | undefined {
  if (before.key_id !== key_id) return "another key signs it";
  if (after.size < before.size) return `it had ${before.size} entries, and has ${after.size}`;
  if (before.size === 0 || proof && isConsistent(before, after, proof)) return undefined;
  return `its first ${before.size} entries are not the ones that were seen on ${before.at}`;
}
