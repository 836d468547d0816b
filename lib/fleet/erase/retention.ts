/** Retention by team and kind: rows older than a rule of `retention.toml` in the store allows are erased. */
import { join } from "node:path";
import { z } from "zod";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { blake3 } from "../../base/hash/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { checkToml, readToml } from "../../base/toml/mod.ts";
import { listMachines, type Machine } from "../receive/mod.ts";
import { type RowTest, SESSION_ID } from "../segment/mod.ts";
import { namesIn, sessionFolder, storePaths } from "../store.ts";
import { erase, type EraseRequest, type Erasure } from "./erase.ts";
import type { SessionKey } from "./subject.ts";

const DAY_MS = 86_400_000;

/** A family of events, or `finding`, `approval`, `statement`. */
const KIND = /^[a-z][a-z_]{0,31}$/;

const Rule = z.strictObject({
  /** absent: all teams */
  team: z.string().max(64).optional(),
  /** family of events with their outcomes, or kind of the journal; absent: all */
  kind: z.string().regex(KIND, "must be a family of events, finding, approval or statement").optional(),
  /** days after its arrival that a row is kept; the first rule that fits a row counts */
  days: z.int().min(1).max(36_500),
});

/** `retention.toml` of a store. Rows that match no rule are kept. */
export const RetentionFile = z.strictObject({ keep: z.array(Rule).max(1000) });
export type RetentionFile = z.infer<typeof RetentionFile>;

export interface RetentionReport {
  /** segments that may have rows to erase */
  segments: number;
  erasure?: Erasure;
}

const State = z.strictObject({ rules: z.string(), at: z.iso.datetime() });

/** Reads the rules of a store. @throws {SbxError} `fleet.retention.invalid` */
export async function readRetention(dir: string): Promise<RetentionFile> {
  const path = join(dir, "retention.toml");
  return checkToml(await readToml(path).catch(missing), RetentionFile, "fleet.retention.invalid");

  function missing(cause: unknown): never {
    throw new SbxError("fleet.retention.invalid", `${path} cannot be read`, {
      cause,
      hint: 'it has rules such as: [[keep]] team = "payments", kind = "http", days = 90',
    });
  }
}

/** Days for rows of a kind and team; `undefined`: they are kept. */
function daysOf({ keep }: RetentionFile, team: string | undefined, kind: string): number | undefined {
  return keep.find((rule) =>
    (rule.team === undefined || rule.team === team) && (rule.kind === undefined || rule.kind === kind)
  )?.days;
}

/**
 * Erases rows that are older than the rules allow. Age is counted from a segment's arrival: a machine's clock
 * decides nothing.
 *
 * @param tables tables on a server that hold the same rows
 * @param isTrial counts only
 */
export async function applyRetention(
  dir: string,
  { by, tables, isTrial = false, now = Date.now() }: Pick<EraseRequest, "by" | "tables"> & {
    isTrial?: boolean;
    now?: number;
  },
): Promise<RetentionReport> {
  const rules = await readRetention(dir);
  const statePath = join(storePaths(dir).statements, "retention.json");
  const hash = blake3(canonicalJson(rules));
  const text = await ifFound(Deno.readTextFile(statePath));
  const state = text === undefined ? undefined : State.parse(JSON.parse(text));
  // With the same rules, only rows whose time ended since the last run are due.
  const since = state?.rules === hash ? Date.parse(state.at) : -Infinity;
  const machines = new Map((await listMachines(dir)).map((machine) => [machine.machine_id, machine]));
  const due = await dueSegments(dir, machines, rules, since, now);
  const report: RetentionReport = {
    segments: [...due.values()].reduce((sum, { ages }) => sum + ages.size, 0),
  };
  if (isTrial) return report;
  const tests = new Map<string, SessionTest>();
  const erasure = await erase(dir, {
    by,
    cause: "retention",
    sessions: [...due.values()].map(({ key }) => key),
    rows: (key, segment) => {
      const id = `${key.machine_id}/${key.session_id}`;
      const age = due.get(id)?.ages.get(segment);
      if (age === undefined) return Promise.resolve(undefined);
      let test = tests.get(id);
      const team = machines.get(key.machine_id)?.team;
      if (!test) tests.set(id, test = new SessionTest((kind) => daysOf(rules, team, kind)));
      return Promise.resolve(test.of(age));
    },
    findings: ({ machine_id = "", found_at = "" }) => {
      const days = daysOf(rules, machines.get(machine_id)?.team, "finding");
      return days !== undefined && now - Date.parse(found_at) > days * DAY_MS;
    },
    ...(tables && { tables }),
  });
  await Deno.mkdir(storePaths(dir).statements, { recursive: true, mode: 0o700 });
  await writeAtomic(statePath, JSON.stringify({ rules: hash, at: new Date(now).toISOString() }));
  return { ...report, ...(erasure && { erasure }) };
}

/**
 * Segments of which some rows may be due, with their ages in days; also the earlier
 * ones of their sessions that are.
 */
async function dueSegments(
  dir: string,
  machines: ReadonlyMap<string, Machine>,
  rules: RetentionFile,
  since: number,
  now: number,
) {
  const due = new Map<string, { key: SessionKey; ages: Map<string, number> }>();
  for (const { machine_id, team } of machines.values()) {
    const days = rules.keep.filter((rule) => rule.team === undefined || rule.team === team)
      .map(({ days }) => days);
    if (days.length === 0) continue;
    for (const session_id of await namesIn(join(storePaths(dir).segments, machine_id))) {
      if (!SESSION_ID.test(session_id)) continue;
      const key = { machine_id, session_id };
      const folder = sessionFolder(dir, machine_id, session_id);
      const ages = new Map<string, number>();
      let isDue = false;
      for (const name of await namesIn(folder)) {
        const arrived = (await Deno.stat(join(folder, name))).mtime?.getTime() ?? now;
        if (days.some((each) => arrived + each * DAY_MS < now)) ages.set(name, (now - arrived) / DAY_MS);
        isDue ||= days.some((each) => arrived + each * DAY_MS < now && arrived + each * DAY_MS >= since);
      }
      if (isDue) due.set(`${machine_id}/${session_id}`, { key, ages });
    }
  }
  return due;
}

/** Test of the rows of one session, segment by segment: an outcome goes with its event. */
class SessionTest {
  readonly #daysOf: (kind: string) => number | undefined;
  /** events that stay, by id */
  readonly #kept = new Set<string>();

  constructor(daysOf: (kind: string) => number | undefined) {
    this.#daysOf = daysOf;
  }

  /** @param age of a segment, in days */
  of(age: number): RowTest {
    const isOver = (kind: string) => age > (this.#daysOf(kind) ?? Infinity);
    return (line) => {
      if (line.kind === "journal") return isOver(line.of);
      const row = parse(line.text);
      if (line.kind === "outcome") return !this.#kept.has(String(row.event_id));
      const common = row.common as { event_type?: unknown; event_id?: unknown } | undefined;
      if (isOver(String(common?.event_type ?? "").split(".")[0])) return true;
      this.#kept.add(String(common?.event_id));
      return false;
    };
  }
}

function parse(text: string): Record<string, unknown> {
  try {
    return JSON.parse(text) ?? {};
  } catch {
    return {};
  }
}
