/**
 * Retro-hunts: packs over the past of a store, bounded by time and cost. Earlier findings are not repeated.
 */
import { join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { Compiled } from "../../detection/mod.ts";
import { hunt, type HuntRow } from "./hunt.ts";
import { type FleetRecords, openRecords } from "./records.ts";
import { z } from "zod";

const DAY_MS = 86_400_000;
/**
 * Most matches of a pack in one day of events: a rule that matches everything must not exhaust the memory.
 */
const MATCHES_MAX = 100_000;

/** How late events of a day arrive that a hunt has looked at, in `ms`. */
const LATE_MS = 2 * DAY_MS;

/** A match that a pack found in the past. */
export interface RetroFinding extends HuntRow {
  schema: "sbx.retro-finding.v1";
  retro: true;
  /** ISO 8601: when the event was, and when it was found */
  event_at: string;
  found_at: string;
  /** BLAKE3 of the pack's IR, or of the plan of Sigma rules */
  pack_hash: string;
}

/** What became of a pack. */
export interface RetroPack {
  pack_id: string;
  pack_hash: string;
  /** no earlier hunt had these rules */
  isNew: boolean;
  /**
   * `partial`: a bound ended it, and the next hunt resumes; `not_due`: hunted recently; `noisy`: too many
   * matches
   */
  state: "hunted" | "partial" | "not_due" | "noisy";
  /** ISO 8601: the oldest day that was looked at so far; of partial ones */
  reached?: string;
}

export interface RetroReport {
  schema: "sbx.retro-report.v1";
  /** every pack that was due has looked at the whole time */
  complete: boolean;
  /** findings that no earlier hunt had */
  fresh: RetroFinding[];
  /** matches that are known */
  known: number;
  /** ISO 8601, from which events on */
  since: string;
  /** events looked at, once for each pack, and `s` that it took */
  events: number;
  seconds: number;
  packs: RetroPack[];
}

export interface RetroOptions {
  engine: "duckdb" | "chdb";
  /** Unix `ms` of the first event that is looked at */
  since: number;
  /** `s` after which no further day of events is looked at */
  maxSeconds?: number;
  /** most events, each counted once for every pack that reads it */
  maxEvents?: number;
  /** called with new findings of a pack before they are kept: after a kill they are found again */
  onFresh?(over: FleetRecords, fresh: readonly RetroFinding[]): Promise<void>;
  /** `ms` after a complete hunt in which an unchanged pack is not due */
  due?: number;
}

/**
 * Runs packs over the whole time, since an event's end may arrive long after the event; keeps and returns new
 * findings. New and changed packs come first, then the ones hunted longest ago, and each begins with the
 * latest day.
 *
 * @throws {SbxError} `fleet.hunt.busy`: another program hunts; errors of {@linkcode openRecords} and of the
 * engine
 */
export async function retroHunt(
  dir: string,
  irs: readonly Compiled[],
  options: RetroOptions,
): Promise<RetroReport> {
  await Deno.mkdir(join(dir, "findings"), { recursive: true, mode: 0o700 });
  using lock = await Deno.open(join(dir, "findings", ".lock"), { create: true, write: true, mode: 0o600 });
  if (!await lockWithin(lock, 0)) {
    throw new SbxError("fleet.hunt.busy", `another program hunts in ${dir}`, { hint: "try again later" });
  }
  await using over = await openRecords(`${options.engine}://${dir}`);
  const began = performance.now();
  const run = new Run(dir, over, options);
  const waiting = await Promise.all(irs.map(async (ir) => {
    const pack_hash = blake3(canonicalJson(ir));
    const state = await readState(findingsOf(dir, ir.pack_id));
    return { ir, pack_hash, state: state?.pack_hash === pack_hash ? state : undefined };
  }));
  waiting.sort((a, b) => (a.state?.hunted_at ?? "") < (b.state?.hunted_at ?? "") ? -1 : 1);
  for (const each of waiting) await run.pack(each);
  const { report } = run;
  report.seconds = (performance.now() - began) / 1000;
  report.complete = report.packs.every(({ state }) => state === "hunted" || state === "not_due");
  return report;
}

interface WaitingPack {
  ir: Compiled;
  pack_hash: string;
  /** of the last hunt of the same rules */
  state: Awaited<ReturnType<typeof readState>>;
}

/** A day of events, from its first `ms` on. */
interface Day {
  start: number;
  events: number;
}

/** One run over several packs, which share its bounds. */
class Run {
  readonly report: RetroReport;
  readonly #began = performance.now();
  #days?: Day[];

  constructor(
    readonly dir: string,
    readonly over: FleetRecords,
    readonly options: RetroOptions,
  ) {
    this.report = {
      schema: "sbx.retro-report.v1",
      complete: false,
      fresh: [],
      known: 0,
      since: new Date(options.since).toISOString(),
      events: 0,
      seconds: 0,
      packs: [],
    };
  }

  async pack({ ir, pack_hash, state }: WaitingPack): Promise<void> {
    const { dir, over, options: { since, due }, report } = this;
    const folder = findingsOf(dir, ir.pack_id);
    const { keys, hashes } = await readKnown(folder);
    const pack: RetroPack = {
      pack_id: ir.pack_id,
      pack_hash,
      isNew: !hashes.has(pack_hash),
      state: "hunted",
    };
    report.packs.push(pack);
    const now = new Date();
    if (state?.reached === null && due !== undefined && now.getTime() - Date.parse(state.hunted_at) < due) {
      pack.state = "not_due";
      return;
    }
    const found_at = now.toISOString();
    const fresh: RetroFinding[] = [];
    let reached = state?.reached ?? undefined;
    for (const { start, events } of this.#order(await this.#daysOf(), state)) {
      if (this.#isSpent(events)) {
        pack.state = "partial";
        break;
      }
      const period = { since: Math.max(start, since), until: start + DAY_MS, limit: MATCHES_MAX };
      const rows = await hunt(over, [ir], period);
      report.events += events;
      reached = Math.min(reached ?? start, start);
      const added = rows.filter((row) => !keys.has(keyOf(row)));
      for (const row of added) keys.add(keyOf(row));
      report.known += rows.length - added.length;
      const event_at = ({ timestamp_unix_ms }: HuntRow) => new Date(timestamp_unix_ms).toISOString();
      fresh.push(...added.map((row): RetroFinding => ({
        schema: "sbx.retro-finding.v1",
        retro: true,
        event_at: event_at(row),
        found_at,
        pack_hash,
        ...row,
      })));
      if (rows.length === MATCHES_MAX || fresh.length >= MATCHES_MAX) {
        pack.state = "noisy";
        break;
      }
    }
    if (pack.state === "partial" && reached !== undefined) pack.reached = new Date(reached).toISOString();
    report.fresh.push(...fresh);
    await this.options.onFresh?.(over, fresh);
    await this.#keep(folder, pack, found_at, fresh);
    const rest = pack.state === "partial" ? reached : null;
    // Without a finished day there is no point to resume from.
    if (rest === undefined) return;
    await writeState(folder, { schema: "sbx.retro-state.v1", pack_hash, hunted_at: found_at, reached: rest });
  }

  /** Days to hunt: all, latest first; after an interrupted hunt its remaining days first, then newer ones. */
  #order(days: readonly Day[], state: WaitingPack["state"]): readonly Day[] {
    const reached = state?.reached;
    if (reached === undefined || reached === null) return days;
    const since = Date.parse(state!.hunted_at) - LATE_MS;
    return [...days.filter(({ start }) => start < reached), ...days.filter(({ start }) => start >= since)];
  }

  /** Keeps findings. An empty result is kept too, once: it shows that this pack was run. */
  async #keep(folder: string, { pack_hash, isNew }: RetroPack, found_at: string, fresh: RetroFinding[]) {
    if (fresh.length === 0 && !isNew) return;
    await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
    const lines = [{ pack_hash, found_at }, ...fresh].map((line) => JSON.stringify(line));
    const name = `${found_at.replaceAll(/[^0-9]/g, "")}-${crypto.randomUUID().slice(0, 8)}.jsonl`;
    await writeAtomic(join(folder, name), lines.join("\n") + "\n");
  }

  /**
   * Whether the bounds forbid so many more events. The first day of a run is always within the time bound.
   */
  #isSpent(events: number): boolean {
    const { maxSeconds, maxEvents } = this.options;
    if (maxEvents !== undefined && this.report.events + events > maxEvents) return true;
    return maxSeconds !== undefined && (performance.now() - this.#began) / 1000 > maxSeconds;
  }

  /** Days with events, the latest first. */
  async #daysOf(): Promise<Day[]> {
    if (this.#days) return this.#days;
    const { engine, table } = this.over;
    const duck = engine.dialect === "duckdb";
    const day = duck ? `timestamp_unix_ms // ${DAY_MS}` : `intDiv(timestamp_unix_ms, ${DAY_MS})`;
    const rows = await engine.rows(
      `SELECT ${day} AS day, count(*) AS events FROM ${table!("events")} AS e
        WHERE timestamp_unix_ms >= ${duck ? "$since" : "{since:Int64}"} GROUP BY day ORDER BY day DESC`,
      { since: { type: "number", values: [this.options.since] } },
    );
    return this.#days = rows.map(({ day, events }) => ({
      start: Number(day) * DAY_MS,
      events: Number(events),
    }));
  }
}

// What retro-hunts of a pack did so far, beside their findings in a store (docs/design/contracts/12-ledger.md
// §12, "Fleet").

/** Folder of the findings of a pack. */
function findingsOf(dir: string, packId: string): string {
  return join(dir, "findings", packId);
}

const State = z.strictObject({
  schema: z.literal("sbx.retro-state.v1"),
  pack_hash: z.string(),
  hunted_at: z.iso.datetime(),
  /** Unix `ms` back to which the last hunt read; `null`: it read everything due */
  reached: z.int().nullable(),
});
type RetroState = z.infer<typeof State>;

const NAME = "state.json";

/** Reads the state of a pack; `undefined`: it was never hunted. */
async function readState(folder: string): Promise<RetroState | undefined> {
  try {
    return State.safeParse(JSON.parse(await Deno.readTextFile(join(folder, NAME)))).data;
  } catch {
    // A damaged one costs another hunt, which finds nothing twice.
    return undefined;
  }
}

async function writeState(folder: string, state: RetroState): Promise<void> {
  await Deno.mkdir(folder, { recursive: true, mode: 0o700 });
  await writeAtomic(join(folder, NAME), JSON.stringify(state) + "\n");
}

/** Keys of all findings of a pack, and hashes of the hunted packs. */
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

/** What makes a finding the same one. */
function keyOf({ rule_id, machine_id, session_id, event_id }: HuntRow): string {
  return [rule_id, machine_id, session_id, event_id].join(" ");
}
