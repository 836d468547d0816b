/**
 * A machine of a fleet: finds changed ledgers of a home, sends their rows, and reports events outside the
 * rows.
 */
import { join } from "node:path";
import { log } from "../../base/log/mod.ts";
import { asSbxError, ifFound, ignore, SbxError } from "../../base/error/mod.ts";
import { readHeads } from "../../ledger/read/mod.ts";
import { namesIn } from "../store.ts";
import type { SigningKey } from "../../release/mod.ts";
import type { Register } from "../register/mod.ts";
import { readWitness, type Witness, witnessLog } from "../log/mod.ts";
import { type BodyGrant, SESSION_ID } from "../segment/mod.ts";
import {
  type Authorize,
  FolderTarget,
  HttpTarget,
  NatsTarget,
  removeCursor,
  REPORT_SESSIONS_MAX,
  type SegmentTarget,
  Shipper,
} from "../ship/mod.ts";
import { writeAtomic } from "../../base/home/mod.ts";
import { fileURLToPath } from "node:url";
import { shownAddress } from "../../base/url/mod.ts";

/** Interval in `ms` between reports that the machine is alive, and until one names a new session. */
const ALIVE_MS = 60_000, NEWS_MS = 5_000;
/** Most entries of the register in one round. */
const ANNOUNCED_MAX = 200;
/** `ms` until rows that were refused are sent again. */
const REFUSED_MS = 10 * 60_000;
/**
 * Bytes of expired ledgers that are kept for a collector that is away
 * (docs/design/contracts/14-limits.md §14).
 */
export const BACKLOG_BYTES = 4 * 1024 * 1024 * 1024;

type OpenRegister = Pick<Register, "after" | "last">;

export interface FleetMachineOptions {
  home: { dir: string };
  key: SigningKey;
  target: SegmentTarget;
  grants?: readonly BodyGrant[];
  /** version of sbx */
  version: string;
  /** whether a session's ledger is still written to */
  isRunning(sessionId: string): boolean;
  /**
   * ids of the home's index of sessions, each of which has a folder below `ledgers` until its retention ends
   */
  index?(): Promise<readonly string[]>;
  /** the home's register of sessions */
  register?(): Promise<OpenRegister>;
  /** versions active on this machine, by name */
  inForce?(): Promise<Record<string, string>>;
}

/** Ships from one home to one collector. */
export class FleetMachine {
  readonly #options: FleetMachineOptions;
  readonly #shipper: Shipper;
  /** stamp of each ledger when it was shipped completely */
  readonly #done = new Map<string, string>();
  /** sessions whose rows the collector refused, with the time of that */
  readonly #refused = new Map<string, number>();
  readonly #forked = new Set<string>();
  #aliveAt = -Infinity;
  /** number of the last entry of the register that the collector has; `undefined`: not read yet */
  #announced?: number;
  #index: readonly string[] = [];
  #indexedAt = -Infinity;
  /** why the collector refused an entry of the register, and when */
  #unannounced?: { error: SbxError; at: number };
  /** last report: active versions, as JSON, and sessions */
  #told = "";
  #toldSessions: ReadonlySet<string> = new Set();
  #status: FleetStatus;

  private constructor(options: FleetMachineOptions, before: FleetStatus | undefined) {
    const { home, key, target, grants } = options;
    this.#options = options;
    this.#shipper = new Shipper({ dir: fleetPaths(home).cursors, key, target, ...(grants && { grants }) });
    const own = before?.machine_id === key.publicKey.id ? before : undefined;
    this.#status = {
      schema: "sbx.fleet-status.v1",
      target: target.name,
      machine_id: key.publicKey.id,
      at: new Date().toISOString(),
      last_good_at: own?.target === target.name ? own.last_good_at : null,
      error: null,
      sessions: { all: 0, behind: 0, forked: [], refused: [], lost: own?.sessions.lost ?? 0 },
      shipped: own?.shipped ?? { events: 0, segments: 0, bytes: 0 },
    };
  }

  static async open(options: FleetMachineOptions): Promise<FleetMachine> {
    await Deno.mkdir(fleetPaths(options.home).folder, { recursive: true, mode: 0o700 });
    return new FleetMachine(options, await readStatus(options.home).catch(() => undefined));
  }

  get status(): FleetStatus {
    return this.#status;
  }

  /** Sends everything that the collector lacks. @returns the error of a collector that is away */
  async round(): Promise<SbxError | undefined> {
    const sessions = await this.#sessions();
    await this.#enter(sessions);
    // One that cannot be written, as on a full disk, must not stop the shipping, which empties it.
    let unannounced: SbxError | undefined;
    const register = await this.#options.register?.().catch((cause) => {
      unannounced = asSbxError(cause, "opening the register of sessions");
    }) || undefined;
    let error: SbxError | undefined = await this.#announce(register).then(
      () => undefined,
      (cause) => asSbxError(cause, "announcing sessions"),
    );
    // One that was rewritten is evidence, and must not keep the rows from the collector, which names it.
    if (error?.code === "fleet.refused") [unannounced, error] = [error, undefined];
    let behind = 0;
    for (const id of sessions) {
      if (error) {
        behind += this.#done.get(id) === await stampOf(this.#ledger(id)) ? 0 : 1;
        continue;
      }
      try {
        await this.#shipOne(id);
        if (this.#refused.has(id) || this.#forked.has(id)) behind++;
      } catch (cause) {
        const failure = asSbxError(cause, `shipping session ${id}`);
        behind++;
        if (failure.code === "fleet.forked") this.#forked.add(id);
        else if (
          ["fleet.refused", "fleet.denied"].includes(failure.code) || failure.code.startsWith("ledger.")
        ) {
          this.#refused.set(id, performance.now());
          // The collector refuses this machine, and not one segment.
          if (failure.code === "fleet.denied") error = failure;
        } else error = failure;
      }
    }
    if (!error) {
      error = await this.#tell(sessions, register?.last)
        .then(() => undefined, (cause) => asSbxError(cause, "reporting"));
    }
    error ??= unannounced;
    await this.#write(sessions.length, behind, error);
    return error;
  }

  /**
   * Decides whether an expired ledger may go: not before its rows are sent, unless the backlog is full. A
   * loss is reported to the collector.
   */
  async release(id: string): Promise<boolean> {
    const unsent = await this.#unsent(id);
    if (unsent !== undefined) {
      if (await this.#backlogBytes() <= BACKLOG_BYTES) return false;
      await this.#noteLoss(id, unsent);
    }
    this.#done.delete(id);
    this.#shipper.forget(id);
    return true;
  }

  /** True if the collector has every row of an ended session, or the session has no rows. */
  async isSent(id: string): Promise<boolean> {
    return await this.#unsent(id) === undefined;
  }

  /**
   * Number of events that the collector lacks of an ended session; undefined: it has every row and the end.
   */
  async #unsent(id: string): Promise<number | undefined> {
    const heads = await readHeads(this.#ledger(id)).catch(() => undefined);
    if (!heads) return undefined;
    const { heads: sent, ended } = await this.#shipper.cursor(id);
    const isSent = sent.events >= heads.events && sent.outcomes >= heads.outcomes &&
      sent.journal >= heads.journal;
    return isSent && ended ? undefined : heads.events - sent.events;
  }

  async #shipOne(id: string): Promise<void> {
    const path = this.#ledger(id);
    const stamp = await stampOf(path);
    if (stamp === undefined || this.#done.get(id) === stamp) return;
    if (this.#forked.has(id)) return;
    // The same rows would be refused again; a newer collector may take them.
    if (performance.now() - (this.#refused.get(id) ?? -Infinity) < REFUSED_MS) return;
    const { events, segments, bytes } = await this.#shipper.ship(id, path);
    this.#refused.delete(id);
    const sum = this.#status.shipped;
    sum.events += events;
    sum.segments += segments;
    sum.bytes += bytes;
    if (!this.#options.isRunning(id)) {
      const isSealed = await exists(`${path}.seal`);
      // Not sealed: its process has just ended, and the service seals it.
      if (!isSealed) return;
      await this.#shipper.end(id, await readHeads(path), await exists(`${path}.unflushed`));
    }
    this.#done.set(id, stamp);
  }

  /** Gives each new ledger a cursor, so that one deleted before its first row is sent is noticed. */
  async #enter(sessions: readonly string[]): Promise<void> {
    for (const id of sessions) {
      if (this.#done.has(id)) continue;
      // A full disk does not keep rows from the collector; the next round tries again.
      await this.#shipper.enter(id).catch((error) =>
        log.warn(`session ${id} has no cursor yet: ${error.message}`)
      );
    }
  }

  /** Sends new entries of the register, each once, ahead of the rows of their sessions. */
  async #announce(register: OpenRegister | undefined): Promise<void> {
    if (!register) return;
    // The same entry would be refused again.
    if (performance.now() - (this.#unannounced?.at ?? -Infinity) < REFUSED_MS) throw this.#unannounced!.error;
    this.#announced ??= await readAnnounced(this.#options.home, this.#options.target.name);
    for (const entry of register.after(this.#announced, ANNOUNCED_MAX)) {
      try {
        await this.#shipper.report({ kind: "register", entry });
        this.#unannounced = undefined;
      } catch (cause) {
        const error = asSbxError(cause, "announcing sessions");
        if (error.code === "fleet.refused") this.#unannounced = { error, at: performance.now() };
        throw error;
      }
      this.#announced = entry.number;
      await writeAnnounced(this.#options.home, this.#options.target.name, entry.number);
    }
  }

  /** Reports that the machine is alive, its sessions, and losses. */
  async #tell(sessions: readonly string[], register: OpenRegister["last"]): Promise<void> {
    await this.#tellLosses(sessions);
    const { version, isRunning, inForce } = this.#options;
    const in_force = await inForce?.();
    const told = JSON.stringify(in_force ?? {});
    const age = performance.now() - this.#aliveAt;
    const hasNews = age >= NEWS_MS && sessions.some((id) => !this.#toldSessions.has(id));
    // A policy change is reported at once: its roll-out waits for it.
    if (age < ALIVE_MS && !hasNews && told === this.#told) return;
    const rows = [];
    for (const session_id of sessions.slice(0, REPORT_SESSIONS_MAX)) {
      // A ledger that was sent completely is not opened again: a home may have thousands.
      const heads = this.#done.has(session_id)
        ? (await this.#shipper.cursor(session_id)).heads
        : await readHeads(this.#ledger(session_id)).catch(() => undefined);
      if (heads) rows.push({ session_id, heads, running: isRunning(session_id) });
    }
    const witness = await this.#witness();
    await this.#shipper.report({
      kind: "alive",
      sbx: version,
      sessions: rows,
      ...(in_force && { in_force }),
      ...(register && { register }),
      ...(witness && { witness }),
    });
    this.#aliveAt = performance.now();
    this.#told = told;
    this.#toldSessions = new Set(sessions);
  }

  /** Follows the log of the collector's store. @returns the state that was seen */
  async #witness(): Promise<{ size: number; root: string } | undefined> {
    const { home, target } = this.#options;
    if (!target.log) return undefined;
    const { folder } = fleetPaths(home);
    try {
      const seen = await witnessLog(folder, target.name, (seen) => target.log!(seen));
      this.#status.witness = seen && statusOf(seen);
    } catch (cause) {
      // A log that cannot be followed is a problem of its own, and keeps no report from the collector.
      const { message } = asSbxError(cause, "reading the log of the collector");
      const before = await readWitness(folder, target.name).catch(() => undefined);
      if (before) this.#status.witness = { ...statusOf(before), problem: before.problem?.detail ?? message };
      else log.warn(message);
    }
    const { size = 0, root } = this.#status.witness ?? {};
    return size > 0 ? { size, root: root! } : undefined;
  }

  /** Finds ledgers deleted, by this program or by other means, before all rows were sent. */
  async #tellLosses(sessions: readonly string[]): Promise<void> {
    const { cursors, losses } = fleetPaths(this.#options.home);
    const here = new Set(sessions);
    const known = new Set((await namesIn(cursors)).map((name) => name.slice(0, -".json".length)));
    const indexed = new Set(await this.#indexed());
    for (const id of [...known, ...indexed]) {
      if (here.has(id) || !SESSION_ID.test(id)) continue;
      const { ended } = await this.#shipper.cursor(id);
      const wasNoted = ended || await exists(join(losses, `${id}.json`));
      if (!wasNoted && !known.has(id) && !await this.#isMissed(id)) continue;
      if (!wasNoted) await this.#noteLoss(id, 0);
      // The index names it until its retention ends: the cursor prevents a second report.
      if (indexed.has(id)) {
        if (!ended) await this.#shipper.close(id);
        continue;
      }
      await removeCursor(cursors, id);
      this.#shipper.forget(id);
    }
    for (const name of await namesIn(losses)) {
      const path = join(losses, name);
      const { heads, events } = JSON.parse(await Deno.readTextFile(path));
      await this.#shipper.report({ kind: "lost", session_id: name.slice(0, -".json".length), heads, events });
      await Deno.remove(path);
    }
  }

  /** Ids of the index, at the pace of reports: it is a database. */
  async #indexed(): Promise<readonly string[]> {
    if (performance.now() - this.#indexedAt < ALIVE_MS) return this.#index;
    this.#index = await this.#options.index?.() ?? [];
    this.#indexedAt = performance.now();
    return this.#index;
  }

  /** True if a session of the index without a ledger had one: a VM that never started has only its folder. */
  async #isMissed(id: string): Promise<boolean> {
    return !this.#options.isRunning(id) && !await exists(join(this.#options.home.dir, "ledgers", id));
  }

  /** @param events that were not sent; 0: unknown */
  async #noteLoss(id: string, events: number): Promise<void> {
    const { losses } = fleetPaths(this.#options.home);
    await Deno.mkdir(losses, { recursive: true, mode: 0o700 });
    const { heads } = await this.#shipper.cursor(id);
    await Deno.writeTextFile(join(losses, `${id}.json`), JSON.stringify({ heads, events }));
    this.#status.sessions.lost++;
  }

  async #write(all: number, behind: number, error: SbxError | undefined): Promise<void> {
    const at = new Date().toISOString();
    this.#status = {
      ...this.#status,
      at,
      last_good_at: error ? this.#status.last_good_at : at,
      error: error ? `${error.message}${error.hint ? ` (${error.hint})` : ""}` : null,
      sessions: {
        ...this.#status.sessions,
        all,
        behind,
        forked: [...this.#forked],
        refused: [...this.#refused.keys()],
      },
    };
    await writeStatus(this.#options.home, this.#status).catch(
      ignore("a full disk must not stop the shipping, which empties it"),
    );
  }

  async #backlogBytes(): Promise<number> {
    let bytes = 0;
    for (const id of await this.#sessions()) {
      if (this.#done.has(id)) continue;
      bytes += await Deno.stat(this.#ledger(id)).then(({ size }) => size, () => 0);
    }
    return bytes;
  }

  /**
   * Sessions with a ledger, oldest first; a folder has none if its VM never started, or if it was removed.
   */
  async #sessions(): Promise<string[]> {
    const ids = (await namesIn(join(this.#options.home.dir, "ledgers"))).filter((name) =>
      SESSION_ID.test(name)
    );
    const found = await Promise.all(ids.map((id) => exists(this.#ledger(id))));
    return ids.filter((_, at) => found[at]).sort();
  }

  #ledger(id: string): string {
    return join(this.#options.home.dir, "ledgers", id, "session.db");
  }
}

/** Value that changes with each write to a ledger; `undefined` without one. */
async function stampOf(path: string): Promise<string | undefined> {
  const one = await Deno.stat(path).catch(() => undefined);
  if (!one?.isFile) return undefined;
  const log = await Deno.stat(`${path}-wal`).catch(() => undefined);
  const seal = await exists(`${path}.seal`);
  return [one.size, one.mtime?.getTime(), log?.size, log?.mtime?.getTime(), seal].join(" ");
}

function exists(path: string): Promise<boolean> {
  return Deno.lstat(path).then(() => true, () => false);
}

/** State of shipping, in a file that `sbx fleet status` reads. */
export interface FleetStatus {
  schema: "sbx.fleet-status.v1";
  /** collector, without credentials */
  target: string;
  machine_id: string;
  /** ISO 8601: end of the last round, and of the last one without an error */
  at: string;
  last_good_at: string | null;
  error: string | null;
  sessions: {
    /** ledgers on this machine */
    all: number;
    /** with rows that the collector lacks */
    behind: number;
    forked: string[];
    /** the collector refuses their rows */
    refused: string[];
    /** removed before all of their rows were sent, since this home began */
    lost: number;
  };
  shipped: { events: number; segments: number; bytes: number };
  /** the log of the collector's store, as this home saw it last */
  witness?: {
    size: number;
    root: string;
    /** ISO 8601 */
    at: string;
    /** a later state does not follow it: the store was rewritten */
    problem?: string;
  };
}

function statusOf({ size, root, at, problem }: Witness): FleetStatus["witness"] & object {
  return { size, root, at, ...(problem && { problem: problem.detail }) };
}

/** Files of shipping below a home. */
export function fleetPaths({ dir }: { dir: string }) {
  const folder = join(dir, "fleet");
  return {
    folder,
    cursors: join(folder, "cursors"),
    losses: join(folder, "losses"),
    register: join(folder, "register.json"),
    status: join(folder, "status.json"),
  };
}

/**
 * Number of the last entry of the register that a collector has. Without it, all are
 * sent again: each is kept once.
 */
async function readAnnounced(home: { dir: string }, target: string): Promise<number> {
  try {
    const cursor = JSON.parse(await Deno.readTextFile(fleetPaths(home).register));
    return cursor.target === target && Number.isInteger(cursor.number) ? cursor.number : 0;
  } catch {
    return 0;
  }
}

async function writeAnnounced(home: { dir: string }, target: string, number: number): Promise<void> {
  await writeAtomic(fleetPaths(home).register, JSON.stringify({ target, number }) + "\n");
}

async function writeStatus(home: { dir: string }, status: FleetStatus): Promise<void> {
  await writeAtomic(fleetPaths(home).status, JSON.stringify(status, null, 2) + "\n");
}

/** Reads the status; `undefined`: this home has shipped nothing yet. */
export async function readStatus(home: { dir: string }): Promise<FleetStatus | undefined> {
  const text = await ifFound(Deno.readTextFile(fleetPaths(home).status));
  return text === undefined ? undefined : JSON.parse(text);
}

/**
 * Opens the collector that a URL names, for a machine with that key.
 * @throws {SbxError} `fleet.url.invalid`
 */
export function openTarget(url: string, key: SigningKey, authorize?: Authorize): SegmentTarget {
  const parsed = URL.parse(url);
  switch (parsed?.protocol) {
    case "file:":
      return new FolderTarget(fileURLToPath(parsed));
    case "http:":
    case "https:":
      return new HttpTarget(url, key, authorize);
    case "nats:":
    case "tls:":
      return new NatsTarget(url, authorize);
    default:
      throw new SbxError("fleet.url.invalid", `"${shownAddress(url)}" is not the address of a collector`, {
        hint: "use https://HOST, http://127.0.0.1:PORT, tls://HOST of a NATS server, or file:///DIR",
      });
  }
}
