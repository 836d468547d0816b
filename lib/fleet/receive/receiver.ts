/**
 * Receives segments: verifies each and keeps it where it begins, at the end of its session's kept rows. Its
 * only state is the folder, so that several receivers may share one.
 */
import { dirname, join } from "node:path";
import { ifFound, SbxError } from "../../base/error/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { type ChainHeads, sameHeads, START_HEADS } from "../../ledger/mod.ts";
import type { PublicKey } from "../../release/mod.ts";
import { headerOf, HEX64, openSegment, type SegmentHeader, verifyChains } from "../segment/mod.ts";
import { openReport, readReport, type Report, REPORT_SESSIONS_MAX, slotOf } from "../ship/mod.ts";
import {
  keepFile,
  keepFirst,
  positionOf,
  reportPath,
  segmentName,
  sessionFolder,
  storePaths,
} from "../store.ts";
import { type Entry, entryHash } from "../register/mod.ts";
import { findMachine, keyOf, requireInFleet } from "./machines.ts";
import { blake3 } from "../../base/hash/mod.ts";

/** Answer to a segment. */
export type Answer =
  /** `isNew`: this call kept it */
  | { kept: true; isNew: boolean; events: number }
  | { kept: false; position: ChainHeads };

/** Sessions whose end is remembered. */
const SESSIONS_MAX = 100_000;

export class Receiver {
  readonly #dir: string;
  /** heads at the end of the kept rows, by folder; another receiver may have kept more since */
  readonly #ends = new Map<string, ChainHeads>();
  readonly #keys = new Map<string, { key: PublicKey; of: string | undefined }>();
  /** sessions in progress, so that segments of one are taken in sequence */
  readonly #busy = new Map<string, Promise<unknown>>();

  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Takes a segment.
   *
   * @param mayWait the segment before may be on its way to another receiver: a gap is not reported
   * @throws {SbxError} `fleet.segment.invalid`, `fleet.machine.unknown`, `fleet.store.unavailable`
   */
  async take(bytes: Uint8Array, mayWait = false): Promise<Answer> {
    const opened = await openSegment(bytes, (id) => this.keyOf(id));
    const { machine_id, session_id } = opened.header;
    const folder = sessionFolder(this.#dir, machine_id, session_id);
    return await this.#inTurn(folder, async () => {
      let end = await this.#endOf(folder);
      if (!sameHeads(opened.header.from, end)) end = await this.#endOf(folder, true);
      if (!sameHeads(opened.header.from, end)) {
        return await this.#elsewhere(folder, opened.header, end, mayWait);
      }
      try {
        verifyChains(opened);
      } catch (error) {
        await keepProblem(this.#dir, {
          kind: "refused",
          machine_id,
          session_id,
          detail: (error as Error).message,
        });
        throw error;
      }
      const isNew = await keepFile(join(folder, segmentName(opened.header)), bytes);
      if (!isNew) return await this.#elsewhere(folder, opened.header, await this.#endOf(folder, true));
      this.#remember(folder, opened.header.to);
      return { kept: true, isNew, events: opened.header.to.events - opened.header.from.events };
    });
  }

  /**
   * Keeps a report.
   * @throws {SbxError} `fleet.report.invalid`, `fleet.machine.unknown`, `fleet.store.unavailable`
   */
  async report(bytes: Uint8Array, machineId: string): Promise<void> {
    const key = await this.keyOf(machineId);
    if (!key) throw new SbxError("fleet.machine.unknown", `machine ${machineId} is not enrolled`);
    const report = await openReport(bytes, key);
    const { body } = report;
    if (body.kind === "alive" && !await this.#isNews(report)) return;
    const path = reportPath(this.#dir, machineId, { kind: body.kind, slot: slotOf(body) });
    if (body.kind === "register") return await this.#keepEntry(machineId, path, bytes, body.entry);
    if (body.kind === "alive") await keepFirst(this.#dir, machineId, bytes);
    await Deno.mkdir(dirname(path), { recursive: true, mode: 0o700 });
    await writeAtomic(path, bytes);
    if (body.kind === "fork") {
      await keepProblem(this.#dir, {
        kind: "fork",
        machine_id: machineId,
        session_id: body.session_id,
        detail:
          `the machine has another record: ${body.here.events} events, ${body.there.events} were sent before`,
      });
    }
  }

  /** Keeps an entry of a machine's register, never in place of another one of its number. */
  async #keepEntry(machine_id: string, path: string, bytes: Uint8Array, entry: Entry): Promise<void> {
    if (await keepFile(path, bytes)) return;
    const kept = (await readReport(path))?.body;
    if (kept?.kind === "register" && entryHash(kept.entry) === entryHash(entry)) return;
    await keepProblem(this.#dir, {
      kind: "register",
      machine_id,
      detail: `another entry ${entry.number} of its register was sent before: the register was rewritten`,
    });
  }

  /** Compares a machine's sessions with its earlier report; a session with fewer rows now went back. */
  async #isNews({ machine_id, made_at, body }: Report): Promise<boolean> {
    if (body.kind !== "alive") return true;
    const before = await readReport(reportPath(this.#dir, machine_id, body));
    if (before?.body.kind !== "alive") return true;
    // A replayed old report is no news. One from a clock that ran ahead must not silence the machine.
    if (made_at <= before.made_at && Date.parse(before.made_at) <= Date.now()) return false;
    const now = new Map(body.sessions.map(({ session_id, heads }) => [session_id, heads]));
    // A list that is full does not name every session.
    const isWhole = Math.max(now.size, before.body.sessions.length) < REPORT_SESSIONS_MAX;
    for (const { session_id, heads } of before.body.sessions) {
      const later = now.get(session_id);
      if (!later && isWhole) {
        // Its end, or its loss, may come by another way: the check looks for them.
        await keepProblem(this.#dir, {
          kind: "vanished",
          machine_id,
          session_id,
          detail: `the machine had ${heads.events} events of it, and no longer names it`,
        });
      }
      if (!later || later.events >= heads.events && later.outcomes >= heads.outcomes) continue;
      await keepProblem(this.#dir, {
        kind: "went_back",
        machine_id,
        session_id,
        detail: `the record had ${heads.events} events, and has ${later.events}`,
      });
    }
    return true;
  }

  /** A segment that does not begin at the end: already known, from a fork, or after a gap. */
  async #elsewhere(
    folder: string,
    header: SegmentHeader,
    end: ChainHeads,
    mayWait = false,
  ): Promise<Answer> {
    const known = await headerAt(join(folder, segmentName(header)));
    if (known && sameHeads(known.from, header.from) && sameHeads(known.to, header.to)) {
      return { kept: true, isNew: false, events: 0 };
    }
    const { machine_id, session_id, from } = header;
    const isAhead = from.events > end.events || from.outcomes > end.outcomes || from.journal > end.journal;
    if (known && !sameHeads(known.from, header.from)) {
      await keepProblem(this.#dir, {
        kind: "fork",
        machine_id,
        session_id,
        detail: `another record was sent from event ${from.events + 1} on`,
      });
    } else if (isAhead && !mayWait) {
      await keepProblem(this.#dir, {
        kind: "gap",
        machine_id,
        session_id,
        detail: `events from ${end.events + 1} to ${from.events} have not been sent yet`,
      });
    }
    return { kept: false, position: end };
  }

  /** Heads at the end of a session. @param again reread, to include rows kept by other receivers */
  async #endOf(folder: string, again = false): Promise<ChainHeads> {
    const remembered = this.#ends.get(folder);
    if (remembered && !again) return remembered;
    const end = await readEnd(folder);
    this.#remember(folder, end);
    return end;
  }

  #remember(folder: string, end: ChainHeads): void {
    this.#ends.delete(folder);
    this.#ends.set(folder, end);
    if (this.#ends.size > SESSIONS_MAX) this.#ends.delete(this.#ends.keys().next().value!);
  }

  /** Key of an enrolled machine. @throws {SbxError} `fleet.machine.ended` */
  async keyOf(id: string): Promise<PublicKey | undefined> {
    // Ids become names of files. Another receiver of the store may have ended the machine.
    if (!HEX64.test(id)) return undefined;
    await requireInFleet(this.#dir, id);
    let known = this.#keys.get(id);
    if (!known) {
      const machine = await findMachine(this.#dir, id);
      if (!machine) return undefined;
      known = { key: keyOf(machine), of: machine.of };
      this.#keys.set(id, known);
    }
    // A home that was enrolled while its machine was ended has no end of its own.
    if (known.of !== undefined) await requireInFleet(this.#dir, known.of);
    return known.key;
  }

  async #inTurn<T>(folder: string, work: () => Promise<T>): Promise<T> {
    const before = this.#busy.get(folder) ?? Promise.resolve();
    const turn = before.then(work, work);
    this.#busy.set(folder, turn);
    try {
      return await turn;
    } finally {
      if (this.#busy.get(folder) === turn) this.#busy.delete(folder);
    }
  }
}

async function headerAt(path: string): Promise<SegmentHeader | undefined> {
  return await ifFound(readStart(path).then(headerOf));
}

/** Follows the segments of a session from the first. @returns the heads at their end */
export async function readEnd(folder: string): Promise<ChainHeads> {
  const names: string[] = [];
  try {
    for await (const { name } of Deno.readDir(folder)) if (positionOf(name)) names.push(name);
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return START_HEADS;
    throw error;
  }
  const last = names.sort().at(-1);
  return last === undefined ? START_HEADS : headerOf(await readStart(join(folder, last))).to;
}

/** Reads the beginning of a segment's file, which has its header. */
async function readStart(path: string): Promise<Uint8Array> {
  using file = await Deno.open(path);
  const bytes = new Uint8Array(16 * 1024);
  return bytes.subarray(0, await file.read(bytes) ?? 0);
}

// Problems that a receiver noticed: kept beside the evidence, for `sbx-admin fleet verify`.

export interface Problem {
  at: string;
  kind: "fork" | "gap" | "refused" | "went_back" | "vanished" | "register";
  machine_id: string;
  session_id?: string;
  detail: string;
}

/** Most problems kept of one machine: a hostile one must not fill the disk. */
const PROBLEMS_MAX = 1000;

/** Keeps a problem, once for the same words. */
export async function keepProblem(dir: string, problem: Omit<Problem, "at">): Promise<void> {
  const folder = join(storePaths(dir).problems, problem.machine_id);
  let count = 0;
  try {
    for await (const _ of Deno.readDir(folder)) if (++count >= PROBLEMS_MAX) return;
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  const name = blake3(JSON.stringify(problem)).slice(0, 32);
  const text = JSON.stringify({ at: new Date().toISOString(), ...problem }) + "\n";
  await keepFile(join(folder, `${name}.json`), new TextEncoder().encode(text));
}

export async function readProblems(dir: string, machineId: string): Promise<Problem[]> {
  const folder = join(storePaths(dir).problems, machineId);
  const problems: Problem[] = [];
  try {
    for await (const { name } of Deno.readDir(folder)) {
      if (name.endsWith(".json")) problems.push(JSON.parse(await Deno.readTextFile(join(folder, name))));
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return problems.sort((a, b) => a.at < b.at ? -1 : 1);
}
