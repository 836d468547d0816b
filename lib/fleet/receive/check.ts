/**
 * Completeness of a store: every row of every machine's sessions, checked against the machines' signatures
 * (docs/guides/fleet.md).
 */
import { join } from "node:path";
import { type ChainHeads, sameHeads, START_HEADS } from "../../ledger/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { openStored, verifyRows } from "../segment/mod.ts";
import { readReport, type Report, REPORT_SESSIONS_MAX, slotOf } from "../ship/mod.ts";
import { checkEntries, type Entry, entryHash } from "../register/mod.ts";
import { FIRST, namesIn, positionOf, reportPath, sessionFolder, storePaths } from "../store.ts";
import { type LogEntry, readLog, recordHash, type Tree } from "../log/mod.ts";
import { endOf, keyOf, listMachines, type Machine, type MachineEnd } from "./machines.ts";
import { readProblems } from "./receiver.ts";

/** Hours without a sign of life after which a machine is silent. */
const SILENT_HOURS = 24;

/** A session as the store has it. */
export interface SessionCheck {
  session_id: string;
  events: number;
  /**
   * `complete`: with its end, `open`: running, `behind`: rows are missing at the end, `bad`: see `problems`
   */
  state: "complete" | "open" | "behind" | "bad";
}

export interface MachineCheck {
  machine_id: string;
  name: string;
  team?: string;
  /** ISO 8601, by the receiver's clock; null: never */
  last_seen: string | null;
  /** it was retired or revoked */
  ended?: MachineEnd;
  sessions: SessionCheck[];
  /** one line each */
  problems: string[];
}

export interface FleetCheck {
  ok: boolean;
  /** the log of the store; absent: it has none */
  log?: { size: number; root: string };
  /** of the store itself, one line each */
  problems: string[];
  machines: MachineCheck[];
  events: number;
}

/** @param onSession callback after each session, for a progress bar */
export async function checkFleet(dir: string, onSession?: () => void, now = Date.now()): Promise<FleetCheck> {
  const machines: MachineCheck[] = [];
  const logged = await readLog(dir);
  const all = await listMachines(dir);
  const homes = new Set(all.flatMap(({ of }) => of === undefined ? [] : [of]));
  for (const machine of all) {
    const check = await checkMachine(dir, machine, homes, now, logged.key, onSession);
    check.problems.push(...await checkWitness(dir, machine, logged.tree));
    machines.push(check);
  }
  const problems = [...logged.problems, ...await checkMachines(dir, all, logged.entries)];
  const strangers = (await namesIn(storePaths(dir).segments)).filter((id) =>
    !machines.some(({ machine_id }) => machine_id === id)
  );
  for (const machine_id of strangers) {
    machines.push({
      machine_id,
      name: "(not enrolled)",
      last_seen: null,
      sessions: [],
      problems: ["there are segments of this machine, whose key is unknown"],
    });
  }
  return {
    ok: problems.length === 0 && machines.every(({ problems }) => problems.length === 0),
    ...(logged.key && { log: { size: logged.tree.size, root: logged.tree.root() } }),
    problems,
    machines,
    events: machines.reduce(
      (sum, { sessions }) => sessions.reduce((part, { events }) => part + events, sum),
      0,
    ),
  };
}

/** Compares the machines of a store with its log. A store from before the log has no entries. */
async function checkMachines(
  dir: string,
  machines: readonly Machine[],
  entries: readonly LogEntry[],
): Promise<string[]> {
  const there = new Map(machines.map((machine) => [machine.machine_id, machine]));
  const records = new Map(
    entries.flatMap((entry) => "record" in entry ? [[entry.machine_id, entry] as const] : []),
  );
  const problems: string[] = [];
  for (const [id, { number, at, record }] of records) {
    const machine = there.get(id);
    if (!machine) problems.push(`machine ${id} was taken out: entry ${number} of the log, ${at}, has it`);
    else if (recordHash(machine) !== record) {
      problems.push(`the file of machine ${id} was changed after entry ${number} of the log, ${at}`);
    }
  }
  for (const entry of entries) {
    if (entry.kind === "ended" && there.has(entry.machine_id) && !await endOf(dir, entry.machine_id)) {
      problems.push(
        `the end of machine ${entry.machine_id} was taken back: it was ${entry.end} on ${entry.at}`,
      );
    }
  }
  if (entries.length === 0) return problems;
  for (const id of there.keys()) {
    if (!records.has(id)) problems.push(`machine ${id} was put in: the log has no entry of it`);
  }
  return problems;
}

/** Compares the state of the log that a machine saw with the log. */
async function checkWitness(dir: string, { machine_id }: Machine, tree: Tree): Promise<string[]> {
  const { body } = await readReport(reportPath(dir, machine_id, { kind: "alive" })) ?? {};
  const seen = body?.kind === "alive" ? body.witness : undefined;
  if (!seen) return [];
  if (seen.size > tree.size) {
    return [`log of the store: this machine saw ${seen.size} entries, and there are ${tree.size}`];
  }
  return tree.root(seen.size) === seen.root
    ? []
    : [`log of the store: this machine saw other entries before number ${seen.size + 1}`];
}

async function checkMachine(
  dir: string,
  machine: Machine,
  homes: ReadonlySet<string>,
  now: number,
  storeKey: PublicKey | undefined,
  onSession?: () => void,
): Promise<MachineCheck> {
  const { machine_id, name, team } = machine;
  const reports = await reportsOf(dir, machine_id);
  const problems = (await readProblems(dir, machine_id))
    .filter(({ kind, session_id = "" }) => kind !== "vanished" || !isToldEnd(reports.get(session_id)))
    .map(({ at, kind, session_id, detail }) =>
      `${kind.replace("_", " ")}, ${session_id ?? "-"}, ${at}: ${detail}`
    );
  const alivePath = reportPath(dir, machine_id, { kind: "alive" });
  const alive = await readReport(alivePath);
  const seen = (await Deno.stat(alivePath).catch(() => undefined))?.mtime;
  const end = await endOf(dir, machine_id);
  // A machine of root's key sends nothing itself: its homes do.
  const isQuiet = end !== undefined || homes.has(machine_id);
  if (!isQuiet && (!seen || now - seen.getTime() > SILENT_HOURS * 3_600_000)) {
    problems.push(seen ? `silent since ${seen.toISOString()}` : "silent since it was enrolled");
  }
  const told = new Map(
    alive?.body.kind === "alive" ? alive.body.sessions.map((session) => [session.session_id, session]) : [],
  );
  const register = await registerOf(dir, machine_id);
  problems.push(...checkRegister(register, alive));
  const removals = new Map(
    register.flatMap((entry) => entry.kind === "removed" ? [[entry.session_id, entry]] : []),
  );
  // Records that the machine removed while it had no collector were not the collector's.
  const first = (await readReport(reportPath(dir, machine_id, { kind: "alive", slot: FIRST })))?.body;
  const before = first?.kind === "alive" ? first.register?.number ?? 0 : 0;
  const isEarlier = (id: string) => (removals.get(id)?.number ?? Infinity) <= before;
  const announced = new Map(
    register.flatMap((entry) =>
      (entry.kind === "begun" || entry.kind === "found") && !isEarlier(entry.session_id)
        ? [[entry.session_id, entry]]
        : []
    ),
  );
  const ids = new Set([
    ...announced.keys(),
    ...await namesIn(join(storePaths(dir).segments, machine_id)),
    ...told.keys(),
    ...reports.keys(),
  ]);
  const sessions: SessionCheck[] = [];
  for (const session_id of [...ids].sort()) {
    const { end, problem, lastAt } = await followSegments(dir, machine, session_id, storeKey);
    const { ended, lost, fork } = reports.get(session_id) ?? {};
    if (problem) problems.push(`session ${session_id}: ${problem}`);
    if (lost) {
      problems.push(
        `session ${session_id}: rows behind event ${lost.heads.events} are lost: the machine removed them before they were sent`,
      );
    }
    if (ended?.unflushed) {
      problems.push(
        `session ${session_id}: its process was killed: up to 50 ms of rows behind event ${ended.heads.events} were never written`,
      );
    }
    const removed = isEarlier(session_id) ? undefined : removals.get(session_id)?.removal;
    // Of a record that could not be read any more, only its reported end says how long it was.
    const isUnread = removed?.heads === null && !isToldEnd(reports.get(session_id));
    const begun = announced.get(session_id);
    // Its rows were never sent, and the machine has it no more.
    const isMissing = begun !== undefined && end.events === 0 && !told.has(session_id) &&
      alive !== undefined && begun.at < alive.made_at && told.size < REPORT_SESSIONS_MAX &&
      !isToldEnd(reports.get(session_id)) && !removed;
    if (isMissing) {
      problems.push(
        `session ${session_id}: announced as number ${begun.number} on ${begun.at}, and none of its rows has arrived`,
      );
    }
    const isRemovedUnsent = removed && (isUnread || isShort(end, removed.heads));
    if (isRemovedUnsent) {
      const by = removed.by ? ` by ${removed.by.user}` : "";
      const when = removed.heads
        ? `${end.events} of ${removed.heads.events} events had arrived`
        : `it could not be read, after ${end.events} events had arrived`;
      problems.push(`session ${session_id}: its record was removed (${removed.reason}${by}) when ${when}`);
    }
    // Both times are of the machine's clock; a report that does not name every session says nothing.
    const isGone = alive !== undefined && told.size < REPORT_SESSIONS_MAX && lastAt !== undefined &&
      lastAt < alive.made_at && !told.has(session_id) && !isToldEnd(reports.get(session_id)) &&
      !removed;
    if (isGone) {
      problems.push(
        `session ${session_id}: the machine no longer names it, and never reported its end after event ${end.events}`,
      );
    }
    const final = ended?.heads ?? told.get(session_id)?.heads;
    const state = problem || fork || lost || isGone || isMissing || isRemovedUnsent
      ? "bad"
      : final && isBehind(end, final)
      ? "behind"
      : ended
      ? sameHeads(end, ended.heads) ? "complete" : "bad"
      : "open";
    if (state === "behind") {
      problems.push(`session ${session_id}: ${end.events} of ${final!.events} events have arrived`);
    }
    if (state === "bad" && !isGone && !isMissing && !removed && ended && !problem && !fork && !lost) {
      problems.push(
        `session ${session_id}: its rows differ from the ones that the machine signed at its end`,
      );
    }
    sessions.push({ session_id, events: end.events, state });
    onSession?.();
  }
  return {
    machine_id,
    name,
    ...(team !== undefined && { team }),
    last_seen: seen?.toISOString() ?? null,
    ...(end && { ended: end }),
    sessions,
    problems,
  };
}

/**
 * Reads all segments of a session from the first, and verifies signatures, rows and their order.
 *
 * @param storeKey key with which the store signs erasures
 * @returns `lastAt`: when the machine made the last one, ISO 8601
 */
export async function followSegments(
  dir: string,
  machine: Machine,
  sessionId: string,
  storeKey?: PublicKey,
): Promise<{ end: ChainHeads; problem?: string; lastAt?: string }> {
  const folder = sessionFolder(dir, machine.machine_id, sessionId);
  const key = keyOf(machine);
  let end: ChainHeads = START_HEADS;
  let lastAt: string | undefined;
  for (const name of (await namesIn(folder)).filter(positionOf).sort()) {
    try {
      const opened = await openStored(
        await Deno.readFile(join(folder, name)),
        (id) => id === key.id ? key : undefined,
        storeKey,
      );
      if (!sameHeads(opened.header.from, end)) {
        return { end, problem: `the segment ${name} does not follow the one before: a segment is missing` };
      }
      if (opened.header.session_id !== sessionId) {
        return { end, problem: `the segment ${name} is of another session` };
      }
      verifyRows(opened);
      end = opened.header.to;
      lastAt = opened.header.made_at;
    } catch (error) {
      return { end, problem: `${name}: ${(error as Error).message}` };
    }
  }
  return { end, ...(lastAt !== undefined && { lastAt }) };
}

/** True if rows are missing in the store that a record had when it was removed. @param heads null: unknown */
function isShort(end: ChainHeads, heads: ChainHeads | null): boolean {
  return heads !== null && isBehind(end, heads);
}

/** Entries of a machine's register, in order. */
async function registerOf(dir: string, machineId: string): Promise<Entry[]> {
  const folder = join(storePaths(dir).reports, machineId);
  const entries: Entry[] = [];
  for (const name of (await namesIn(folder)).filter((name) => /^register-\d{12}\.json$/.test(name)).sort()) {
    const body = (await readReport(join(folder, name)))?.body;
    if (body?.kind === "register" && name.includes(slotOf(body))) entries.push(body.entry);
  }
  return entries;
}

function checkRegister(entries: Entry[], alive: Report | undefined): string[] {
  const problems = checkEntries(entries).map((problem) => `register of sessions: ${problem}`);
  const named = alive?.body.kind === "alive" ? alive.body.register : undefined;
  const last = entries.at(-1);
  if (last && alive && !named) problems.push("register of sessions: the machine has none any more");
  if (!named) return problems;
  const there = entries.find(({ number }) => number === named.number);
  if (!there) {
    const from = (last?.number ?? 0) + 1;
    if (named.number >= from) {
      problems.push(`register of sessions: entries ${from} to ${named.number} have not arrived`);
    }
  } else if (entryHash(there) !== named.hash) {
    problems.push(`register of sessions: the machine has another entry ${named.number}`);
  }
  // Entries come before the report that names the last one.
  if (last && last.number > named.number && last.at < alive!.made_at) {
    problems.push(`register of sessions: it had ${last.number} entries, and has ${named.number}`);
  }
  return problems;
}

/** True if the machine reported a session's end. */
function isToldEnd(reports: SessionReports | undefined): boolean {
  return reports?.ended !== undefined || reports?.lost !== undefined || reports?.fork !== undefined;
}

interface SessionReports {
  ended?: Extract<Report["body"], { kind: "ended" }>;
  lost?: Extract<Report["body"], { kind: "lost" }>;
  fork?: Extract<Report["body"], { kind: "fork" }>;
}

async function reportsOf(dir: string, machineId: string): Promise<Map<string, SessionReports>> {
  const folder = join(storePaths(dir).reports, machineId);
  const found = new Map<string, SessionReports>();
  for (const name of await namesIn(folder)) {
    const body = name.endsWith(".json") ? (await readReport(join(folder, name)))?.body : undefined;
    if (!body || body.kind === "alive" || body.kind === "register") continue;
    found.set(body.session_id, { ...found.get(body.session_id), [body.kind]: body });
  }
  return found;
}

function isBehind(end: ChainHeads, final: ChainHeads): boolean {
  return end.events < final.events || end.outcomes < final.outcomes || end.journal < final.journal;
}
