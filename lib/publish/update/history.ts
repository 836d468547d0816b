/** Changes that updates made in a home: `$SBX_HOME/release/history.jsonl`, one line a change. */
import { dirname, join } from "node:path";
import { z } from "zod";
import type { Home } from "../../base/home/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/** Changes that are shown. */
const SHOWN = 20;
/** Most bytes that are read of the history, from its end. */
const READ_MAX = 64 * 1024;

/** One change. */
export const Change = z.strictObject({
  at: z.iso.datetime(),
  what: z.enum(["assets", "profile", "program", "bundle"]),
  profile: z.string().optional().describe("id of the profile whose assets or document changed"),
  from: z.string().optional(),
  to: z.string(),
  /** address without password and query */
  source: z.string(),
  /** a person allowed an older version */
  downgrade: z.boolean().optional(),
});
export type Change = z.infer<typeof Change>;

/** Records a change; it is on the disk before the change takes place. */
export async function recordChange({ dir }: Pick<Home, "dir">, change: Omit<Change, "at">): Promise<void> {
  const path = pathOf(dir);
  await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
  const line = JSON.stringify({ at: new Date().toISOString(), ...change });
  using file = await Deno.open(path, { append: true, create: true, mode: 0o600 });
  // Starts on a new line, even behind one that a crash cut off; empty lines are no changes.
  await writeAll(file, new TextEncoder().encode(`\n${line}\n`));
  await file.sync();
}

/** The latest changes, newest first. Lines that a crash cut off are left out. */
export async function readHistory({ dir }: Pick<Home, "dir">): Promise<Change[]> {
  try {
    using file = await Deno.open(pathOf(dir));
    const { size } = await file.stat();
    await file.seek(Math.max(0, size - READ_MAX), Deno.SeekMode.Start);
    const lines = (await new Response(file.readable).text()).split("\n");
    return lines.flatMap((line) => parseChange(line) ?? []).slice(-SHOWN).reverse();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}

function parseChange(line: string): Change | undefined {
  try {
    return Change.safeParse(JSON.parse(line)).data;
  } catch {
    return undefined;
  }
}

function pathOf(dir: string): string {
  return join(dir, "release", "history.jsonl");
}
