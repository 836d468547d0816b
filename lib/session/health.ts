/**
 * The health of a session: a machine that must pause while its ledger or its disk cannot be written, and the
 * room on the disk that is kept for the record.
 */
import { statfs } from "node:fs/promises";
import { ignore, SbxError } from "../base/error/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay, timeLimit } from "../base/time/mod.ts";
import type { ExecStreams } from "../machine/guest/mod.ts";
import type { MachineInfo } from "./ipc/mod.ts";
import type { Absence } from "./guest_absence.ts";
import type { SessionReport } from "./report.ts";
import { dirname } from "node:path";
import { writeAll } from "../base/wire/mod.ts";

/** The remedy for a machine that paused itself. */
export const PAUSED_HINT =
  "free some space, or raise ledger.max_size_mb (sbx settings): it resumes automatically. Removing a file that a program of " +
  "the VM has open frees nothing: empty it instead (truncate -s 0). On a full disk sbx resume lets the VM go on once, " +
  "in the room kept for its record";

/** `ms` between looks for room on a disk that was full. */
const ROOM_RETRY_MS = 1000;
/** Longest wait for the ledger to be written in the room that was kept for it, in `ms`, and between looks. */
const RECOVERY_MS = timeLimit(10_000);
const POLL_MS = 100;
/** Free `bytes` before a guest resumes: with less it would stop again at once. */
const ROOM_BYTES = 16 * 1024 * 1024;

/** The machine of a session. */
export interface MonitoredMachine {
  name: string;
  /** image of the guest's disk */
  disk: string;
  /** the session's report about the machine */
  report: Pick<SessionReport, "info" | "keep">;
  absence(): Pick<Absence, "over" | "written" | "isAway">;
  pause(): Promise<void>;
  resume(): Promise<void>;
  /** a finding holds it: it stands still until a person lets it go on */
  isHeld(): boolean;
  /** gives up a guest that has become unreachable (lib/machine/vm/disk_guard.ts) */
  requireAnswer(): Promise<void>;
  /** room on the disk for the record */
  reserve: DiskReserve;
}

/**
 * Pauses a machine while its ledger (with `ledger.on_full = "pause"`) or its disk
 * cannot be written, and resumes it.
 */
export class SessionHealth {
  readonly #machine: MonitoredMachine;
  /** why the ledger cannot be written, while it cannot */
  #ledgerProblem?: { message: string; pause: boolean; isSizeLimit: boolean };
  /** why the guest's disk cannot be written, while it cannot */
  #diskProblem?: string;
  /** it paused itself; no person did */
  #pausedItself = false;
  /** standard errors of the running programs */
  readonly #programs = new Set<ExecStreams>();

  constructor(machine: MonitoredMachine) {
    this.#machine = machine;
  }

  /** The ledger cannot be written; `pause`: the machine has to stop. */
  async ledgerFailed({ message, cause }: Error, pause: boolean): Promise<void> {
    const isSizeLimit = cause instanceof SbxError && cause.code === "ledger.full";
    this.#ledgerProblem = { message, pause, isSizeLimit };
    this.#set({ last_error: this.#known });
    await this.pauseIfNeeded();
  }

  /** The ledger is written again. */
  async ledgerRecovered(): Promise<void> {
    this.#ledgerProblem = undefined;
    await this.#problemEnded();
    this.takeReserve();
  }

  /**
   * A machine that paused itself does not go on by itself any more: a finding holds it back.
   * @param why for clients that wait for its programs
   */
  keepPaused(why: string): void {
    this.#pausedItself = false;
    for (const streams of this.#programs) write(streams, why);
  }

  /** Keeps room for the record, as soon as the disk has plenty. */
  takeReserve(): void {
    this.#machine.reserve.take().catch((error) => log.warn(error));
  }

  /** Releases the reserve for the last rows of the record. */
  async end(): Promise<void> {
    await this.#machine.reserve.release();
  }

  /** Lets a machine with a full ledger continue in its reserved space. @returns false without a reserve */
  async useReserve(): Promise<boolean> {
    if (!this.#mayUseReserve || !await this.#machine.reserve.release()) return false;
    // The ledger retries on its own.
    for (let waited = 0; waited < RECOVERY_MS; waited += POLL_MS) {
      if (this.#state !== "Paused") return true;
      await backgroundDelay(POLL_MS);
    }
    return false;
  }

  /** The hypervisor paused the machine because its disk is full; settles when it has room and runs again. */
  async diskFull(): Promise<void> {
    if (this.#diskProblem !== undefined) return;
    const { disk } = this.#machine;
    this.#diskProblem = `the host has no space left for the guest's disk ${disk}`;
    this.#set({ last_error: this.#known });
    // One whose guest is away is paused when that is back, for which there must be
    // room: it stands still already.
    if (this.#machine.absence().isAway) this.#paused();
    else await this.pauseIfNeeded();
    while (isLive(this.#state) && !await hasRoom(disk)) await backgroundDelay(ROOM_RETRY_MS);
    this.#diskProblem = undefined;
    // Paused by the hypervisor, not by an order.
    if (this.#state === "Booting") return await this.#machine.resume();
    await this.#problemEnded();
    if (this.#state === "Running") await this.#machine.requireAnswer();
  }

  /** Pauses a running machine that has a problem, also one from before it ran. */
  async pauseIfNeeded(): Promise<void> {
    if (!this.#mustPause) return;
    await this.#machine.absence().over;
    if (!this.#mustPause) return;
    await this.#machine.pause();
    // The problem may be over by now.
    if (this.#problem === undefined && !this.#machine.isHeld()) return await this.#machine.resume();
    this.#paused();
  }

  /** Settles when the guest is there. @throws {SbxError} `vm.paused`: it may not come back soon */
  async present(): Promise<void> {
    this.requireHealthy();
    await this.#machine.absence().over;
  }

  /** @throws {SbxError} `vm.paused` while the machine is paused by a problem */
  requireHealthy(): void {
    if (this.#problem !== undefined && this.#state === "Paused") throw this.#error();
  }

  /** Runs a program and writes to its standard error when the machine pauses and resumes. */
  async notifying<T>(streams: ExecStreams, program: Promise<T>): Promise<T> {
    this.#programs.add(streams);
    if (this.#pausedItself) this.#explain(streams);
    return await program.finally(() => this.#programs.delete(streams));
  }

  get #mayUseReserve(): boolean {
    const { reserve } = this.#machine;
    return reserve.held && this.#ledgerProblem !== undefined && !this.#ledgerProblem.isSizeLimit;
  }

  get #mustPause(): boolean {
    return this.#problem !== undefined && this.#state === "Running";
  }

  get #state(): MachineInfo["state"] {
    return this.#machine.report.info.state;
  }

  /** Why the machine must stand still: one full disk may be both the ledger's and the guest's. */
  get #problem(): string | undefined {
    return joined([this.#ledgerProblem?.pause ? this.#ledgerProblem.message : undefined, this.#diskProblem]);
  }

  /** Every problem, including ones that leave the machine running. */
  get #known(): string | undefined {
    return joined([this.#ledgerProblem?.message, this.#diskProblem]);
  }

  /** Reports a machine that stands still. */
  #paused(): void {
    if (this.#state !== "Running") return;
    this.#pausedItself = true;
    this.#set({ state: "Paused", last_error: this.#known });
    for (const streams of this.#programs) this.#explain(streams);
  }

  /** One problem has ended; the machine resumes after the last one that paused it. */
  async #problemEnded(): Promise<void> {
    if (!isLive(this.#state)) return;
    this.#set({ last_error: this.#known });
    if (this.#problem !== undefined) return;
    const pausedItself = this.#pausedItself;
    this.#pausedItself = false;
    if (!pausedItself || this.#state !== "Paused") return;
    await this.#machine.absence().written;
    if (this.#machine.isHeld()) return;
    // Before it does: a program may end at once.
    for (const streams of this.#programs) write(streams, `"${this.#machine.name}" goes on`);
    await this.#machine.resume();
    // A finding of this moment has found it paused.
    if (this.#machine.isHeld()) return await this.#machine.pause();
    this.#set({ state: "Running" });
  }

  #set(change: Partial<MachineInfo>): void {
    this.#machine.report.keep(change);
  }

  #error(): SbxError {
    const hint = PAUSED_HINT;
    return new SbxError("vm.paused", `"${this.#machine.name}" is paused: ${this.#problem}`, { hint });
  }

  #explain(streams: ExecStreams): void {
    const { message, hint } = this.#error();
    write(streams, `${message}\n${hint}`);
  }
}

function write(streams: ExecStreams, text: string): void {
  streams.output("stderr", new TextEncoder().encode(`sbx: ${text}\n`).toBase64()).catch(
    ignore("the client has left"),
  );
}

function joined(problems: (string | undefined)[]): string | undefined {
  const known = problems.filter((problem) => problem !== undefined);
  return known.length > 0 ? known.join("; ") : undefined;
}

function isLive(state: MachineInfo["state"]): boolean {
  return state === "Booting" || state === "Running" || state === "Paused";
}

/** Tests whether the file system of a file has room again. */
async function hasRoom(path: string): Promise<boolean> {
  const { bavail, bsize } = await statfs(path);
  return bavail * bsize >= ROOM_BYTES;
}

/** Room for the record of a session on a full disk, in `bytes` (docs/design/contracts/14-limits.md §14). */
const RESERVE_BYTES = 8 * 1024 * 1024;
/** Free `bytes` of a disk that a reserve is taken from; a smaller one is left to what people want on it. */
const PLENTY_BYTES = 128 * 1024 * 1024;
const CHUNK_BYTES = 64 * 1024;

/** Room on the disk that a file keeps for the record of a session, until the disk is full. */
export class DiskReserve {
  readonly #path: string;
  #held = false;

  /** @param path file that keeps the room, on the disk of the record */
  constructor(path: string) {
    this.#path = path;
  }

  get held(): boolean {
    return this.#held;
  }

  /** Takes the room, unless it is held or the disk has little left. */
  async take(): Promise<void> {
    const { bavail, bsize } = await statfs(dirname(this.#path));
    if (this.#held || bavail * bsize < PLENTY_BYTES) return;
    try {
      using file = await Deno.open(this.#path, { write: true, create: true, truncate: true, mode: 0o600 });
      // Random, since a file system may store nothing for zeros.
      const chunk = crypto.getRandomValues(new Uint8Array(CHUNK_BYTES));
      for (let size = 0; size < RESERVE_BYTES; size += chunk.length) await writeAll(file, chunk);
      this.#held = true;
    } catch (error) {
      await Deno.remove(this.#path).catch(ignore("the failure to take the room is thrown"));
      throw error;
    }
  }

  /** Gives the room back. @returns false when none was held */
  async release(): Promise<boolean> {
    const wasHeld = this.#held;
    this.#held = false;
    return await Deno.remove(this.#path).then(() => wasHeld, () => false);
  }
}
