/**
 * What retro-hunts of a pack did so far, beside their findings in a store (docs/design/contracts/12-ledger.md
 * §12, "Fleet").
 */
import { join } from "node:path";
import { z } from "zod";
import { writeAtomic } from "../../base/home/mod.ts";
import type { HuntRow } from "./hunt.ts";

/** Folder of the findings of a pack. */
export function findingsOf(dir: string, packId: string): string {
  return join(dir, "findings", packId);
}

const State = z.strictObject({
  schema: z.literal("sbx.retro-state.v1"),
  pack_hash: z.string(),
  hunted_at: z.iso.datetime(),
  /** Unix `ms` from which on the last hunt looked; `null`: it looked at all that it had to */
  reached: z.int().nullable(),
});
export type RetroState = z.infer<typeof State>;

const NAME = "state.json";

/** Reads the state of a pack; `undefined`: it was never hunted. */
export async function readState(folder: string): Promise<RetroState | undefined> {
  try {
    return State.safeParse(JSON.parse(await Deno.readTextFile(join(folder, NAME)))).data;
  } catch {
    // A damaged one costs another hunt, which finds nothing twice.
    return undefined;
  }
}

export async function writeState(folder: string, state: RetroState): Promise<void> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  await writeAtomic(join(folder, NAME), JSON.stringify(state) + "\n");
}

/** Keys of all findings of a pack, and the hashes of the packs that were hunted. */
export async function readKnown(folder: string): Promise<{ keys: Set<string>; hashes: Set<string> }> {
  const [keys, hashes] = [new Set<string>(), new Set<string>()];
  try {
    for await (const { name } of Deno.readDir(folder)) {
      if (!name.endsWith(".jsonl")) continue;
      const [first, ...lines] = (await Deno.readTextFile(join(folder, name))).trimEnd().split("\n");
      hashes.add(JSON.parse(first).pack_hash);
      for (const line of lines) keys.add(keyOf(JSON.parse(line)));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return { keys, hashes };
}

/** What makes a finding the same one. */
export function keyOf({ rule_id, machine_id, session_id, event_id }: HuntRow): string {
  return [rule_id, machine_id, session_id, event_id].join(" ");
}
