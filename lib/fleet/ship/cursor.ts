/** Progress of each session's shipping: a small file a session, written after the collector has the rows. */
import { join } from "node:path";
import { z } from "zod";
import { writeAtomic } from "../../base/home/mod.ts";
import { GENESIS } from "../../ledger/mod.ts";
import { Heads } from "../segment/mod.ts";

/** Heads of an empty ledger. */
export const START: z.infer<typeof Heads> = {
  events: 0,
  head_hash: GENESIS,
  outcomes: 0,
  outcome_hash: GENESIS,
  journal: 0,
  journal_hash: GENESIS,
};

const Cursor = z.strictObject({
  /** collector that has the rows */
  target: z.string(),
  heads: Heads,
  /** the session's end was reported */
  ended: z.boolean(),
  /** the collector has another record of this session; nothing more is sent */
  forked: z.boolean(),
});
export type Cursor = z.infer<typeof Cursor>;

/** Reads a cursor; a missing, damaged or foreign one restarts: the collector knows its own position. */
export async function readCursor(dir: string, sessionId: string, target: string): Promise<Cursor> {
  try {
    const cursor = Cursor.parse(JSON.parse(await Deno.readTextFile(pathOf(dir, sessionId))));
    if (cursor.target === target) return cursor;
  } catch {
    // A damaged cursor counts as missing.
  }
  return { target, heads: START, ended: false, forked: false };
}

export function hasCursor(dir: string, sessionId: string): Promise<boolean> {
  return Deno.lstat(pathOf(dir, sessionId)).then(() => true, () => false);
}

export async function writeCursor(dir: string, sessionId: string, cursor: Cursor): Promise<void> {
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  await writeAtomic(pathOf(dir, sessionId), JSON.stringify(cursor) + "\n");
}

export async function removeCursor(dir: string, sessionId: string): Promise<void> {
  await Deno.remove(pathOf(dir, sessionId)).catch(() => {});
}

function pathOf(dir: string, sessionId: string): string {
  return join(dir, `${sessionId}.json`);
}
