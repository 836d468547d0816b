/** Retro-hunts: packs over the past of a store, from a timer. What was found before is not found again (docs/fleet.md). */
import { join } from "node:path";
import { blake3 } from "../../base/hash/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { DetectionIr } from "../../detection/mod.ts";
import { hunt, type HuntRow, openOver } from "./hunt.ts";

/** A match that a pack found in the past. */
export interface RetroFinding extends HuntRow {
  schema: "sbx.retro-finding.v1";
  retro: true;
  /** ISO 8601: when the event was, and when it was found */
  event_at: string;
  found_at: string;
  /** BLAKE3 of the pack's IR */
  pack_hash: string;
}

export interface RetroReport {
  /** findings that no earlier hunt had */
  fresh: RetroFinding[];
  /** matches that are known */
  known: number;
  packs: { pack_id: string; pack_hash: string; isNew: boolean }[];
}

export interface RetroOptions {
  engine: "duckdb" | "chdb";
  /** Unix `ms` of the first event that is looked at */
  since: number;
}

/**
 * Runs packs over the whole time, since the end of an event may arrive long after the event; keeps and returns what is new.
 *
 * @throws {SbxError} those of {@linkcode openOver} and of the engine
 */
export async function retroHunt(
  dir: string,
  irs: readonly DetectionIr[],
  { engine, since }: RetroOptions,
): Promise<RetroReport> {
  await using over = await openOver(`${engine}://${dir}`);
  const report: RetroReport = { fresh: [], known: 0, packs: [] };
  for (const ir of irs) {
    const pack_hash = blake3(canonicalJson(ir));
    const folder = join(dir, "findings", ir.pack_id);
    const { keys, hashes } = await readKnown(folder);
    report.packs.push({ pack_id: ir.pack_id, pack_hash, isNew: !hashes.has(pack_hash) });
    const found_at = new Date().toISOString();
    const rows = await hunt(over, [ir], since);
    const fresh = rows.filter((row) => !keys.has(keyOf(row))).map((row): RetroFinding => ({
      schema: "sbx.retro-finding.v1",
      retro: true,
      event_at: new Date(row.timestamp_unix_ms).toISOString(),
      found_at,
      pack_hash,
      ...row,
    }));
    report.known += rows.length - fresh.length;
    report.fresh.push(...fresh);
    // A hunt without findings is kept too: it says that this pack was run.
    if (fresh.length === 0 && hashes.has(pack_hash)) continue;
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    const lines = [
      JSON.stringify({ pack_hash, found_at }),
      ...fresh.map((finding) => JSON.stringify(finding)),
    ];
    await writeAtomic(join(folder, `${found_at.replaceAll(/[^0-9]/g, "")}.jsonl`), lines.join("\n") + "\n");
  }
  return report;
}

async function readKnown(folder: string): Promise<{ keys: Set<string>; hashes: Set<string> }> {
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

function keyOf({ rule_id, machine_id, session_id, event_id }: HuntRow): string {
  return [rule_id, machine_id, session_id, event_id].join(" ");
}
