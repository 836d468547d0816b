import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import type { ExecStreams, Terminal } from "../../machine/guest/mod.ts";
import { JobOutput, JOBS_KEPT, JOBS_RUNNING_MAX, OutputReader, type Piece, type Stream } from "./output.ts";
import { JobRecord } from "./schema.ts";
import { log } from "../../base/log/mod.ts";
import { join } from "node:path";
import { writeAtomic } from "../../base/home/mod.ts";

const ID_BYTES = 4;

/** The jobs of one VM. They live with its process: service, gateway and terminals may come and go. */
export class Jobs {
  readonly #dir: string;
  readonly #runner: JobRunner;
  readonly #jobs = new Map<string, Job>();
  /** ended jobs of earlier processes, in the order of their starts */
  readonly #past = new Map<string, JobRecord>();
  #opened: Promise<void> | undefined;

  /** @param dir folder of the VM's jobs */
  constructor(dir: string, runner: JobRunner) {
    this.#dir = dir;
    this.#runner = runner;
  }

  /** Lists the jobs, the oldest first. */
  async list(): Promise<JobRecord[]> {
    await this.#open();
    return this.#all();
  }

  /**
   * Starts a job.
   *
   * @returns when policy has decided, or earlier where a person is asked: state `Waiting`
   * @param patience `ms` to wait for the decision
   * @throws {SbxError} `vm.busy`, `disk.full`
   */
  async start(program: JobProgram, patience: number): Promise<JobRecord> {
    await this.#open();
    const running = this.#jobs.values().filter(({ record }) => record.state !== "Ended");
    if (Array.from(running).length >= JOBS_RUNNING_MAX) {
      throw new SbxError("vm.busy", `the VM runs ${JOBS_RUNNING_MAX} jobs, the limit`, {
        hint: "wait until one of them has ended, or end one: sbx jobs stop ID",
      });
    }
    const id = this.#newId();
    await Deno.mkdir(jobDir(this.#dir, id), { recursive: true, mode: 0o700 }).catch((error) => {
      throw asSbxError(error, "starting a job");
    });
    const { argv, cwd } = await this.#runner.scrub({ argv: program.argv, cwd: program.cwd });
    const job = new Job(this.#dir, id, { argv, cwd, tty: program.tty });
    this.#jobs.set(id, job);
    void job.run(program, this.#runner).finally(() => this.#prune());
    await waitFor(job.decided, patience);
    return job.record;
  }

  /** @throws {SbxError} `job.not_found` */
  async find(id: string): Promise<JobRecord> {
    await this.#open();
    const record = this.#jobs.get(id)?.record ?? this.#past.get(id);
    if (record) return record;
    throw new SbxError("job.not_found", `the VM has no job ${id}`, {
      hint: "sbx jobs lists the jobs of all VMs",
    });
  }

  /** A job of this process. @throws {SbxError} `job.not_found`, `job.ended` */
  async running(id: string): Promise<Job> {
    const { state } = await this.find(id);
    const job = this.#jobs.get(id);
    if (job && state !== "Ended") return job;
    throw jobEnded(id);
  }

  /** The terminal of a running job. @throws {SbxError} `job.not_found`, `job.ended`, `job.no_terminal` */
  async terminal(id: string): Promise<Terminal> {
    const { terminal } = await this.running(id);
    if (terminal) return terminal;
    throw noTerminal(id);
  }

  /** Ends a job. @param patience `ms` to wait for its end @throws {SbxError} `job.not_found`, `job.ended` */
  async stop(id: string, patience: number): Promise<JobRecord> {
    const job = await this.running(id);
    job.stop("stopped by sbx jobs stop");
    await waitFor(job.ended, patience);
    return job.record;
  }

  /** Settles when the records of all jobs are on disk. */
  async settle(): Promise<void> {
    await Promise.all(Array.from(this.#jobs.values(), (job) => job.settle()));
  }

  #open(): Promise<void> {
    return this.#opened ??= this.#readPast();
  }

  /** Reads the jobs of earlier processes, which ended with their machine. */
  async #readPast(): Promise<void> {
    for (const record of await readJobs(this.#dir)) {
      const ended = endedWithVm(record);
      if (ended !== record) await writeJob(this.#dir, ended);
      this.#past.set(record.id, ended);
    }
    await this.#prune();
  }

  /** Removes the oldest of the ended jobs that are too many. */
  async #prune(): Promise<void> {
    const ended = this.#all().filter(({ state }) => state === "Ended");
    for (const { id } of ended.slice(0, Math.max(0, ended.length - JOBS_KEPT))) {
      const job = this.#jobs.get(id);
      this.#past.delete(id);
      this.#jobs.delete(id);
      await job?.settle();
      await Deno.remove(jobDir(this.#dir, id), { recursive: true }).catch(
        ignore("a folder that stays is read again, and removed later"),
      );
    }
  }

  #all(): JobRecord[] {
    return [...this.#past.values(), ...Array.from(this.#jobs.values(), ({ record }) => record)];
  }

  #newId(): string {
    const id = crypto.getRandomValues(new Uint8Array(ID_BYTES)).toHex();
    return this.#jobs.has(id) || this.#past.has(id) ? this.#newId() : id;
  }
}

export function jobEnded(id: string): SbxError {
  return new SbxError("job.ended", `job ${id} has ended`, { hint: `sbx jobs logs ${id} shows its output` });
}

export function noTerminal(id: string): SbxError {
  return new SbxError("job.no_terminal", `job ${id} has no terminal`, {
    hint: `sbx jobs logs --follow ${id} shows its output; a terminal takes sbx exec --detach --tty`,
  });
}

/** A job as its VM's end left it. */
export function endedWithVm(record: JobRecord): JobRecord {
  if (record.state === "Ended") return record;
  return { ...record, state: "Ended", reason: record.reason ?? "its VM ended" };
}

async function waitFor(promise: Promise<void>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  await Promise.race([promise, new Promise((resolve) => timer = setTimeout(resolve, ms))]);
  clearTimeout(timer);
}

/** Exit code of a program that policy blocked (docs/design/contracts/02-http.md §2). */
const NOT_PERMITTED = 126;

/** One program in the background, with its output on disk. */
class Job {
  /** settles at the decision of policy, or at an end before it */
  readonly decided: Promise<void>;
  /** settles at its end */
  readonly ended: Promise<void>;
  #record: JobRecord;
  #jobsDir: string;
  #output: JobOutput;
  #terminal: Terminal | undefined;
  #cancel = new AbortController();
  #decided = Promise.withResolvers<void>();
  #ended = Promise.withResolvers<void>();
  /** resolves at the next output, and at the end */
  #changed = Promise.withResolvers<void>();
  #written = Promise.resolve();

  /**
   * @param jobsDir folder of the VM's jobs; this one's is in it
   * @param program as it may be written down
   */
  constructor(jobsDir: string, id: string, { argv, cwd, tty }: Pick<JobProgram, "argv" | "cwd" | "tty">) {
    this.decided = this.#decided.promise;
    this.ended = this.#ended.promise;
    this.#jobsDir = jobsDir;
    this.#record = { id, argv, cwd, tty, state: "Waiting", started_at: new Date().toISOString() };
    this.#output = new JobOutput(jobDir(jobsDir, id));
    this.#write();
  }

  get record(): JobRecord {
    return this.#record;
  }

  /** The terminal of a running job that has one. */
  get terminal(): Terminal | undefined {
    return this.#terminal?.ended ? undefined : this.#terminal;
  }

  /** Runs the program to its end; failures are part of the record. */
  async run(program: JobProgram, runner: JobRunner): Promise<void> {
    try {
      const exit_code =
        await (program.tty ? this.#runInTerminal(program, runner) : this.#run(program, runner));
      this.#end(exit_code);
    } catch (error) {
      this.#end(undefined, asSbxError(error, "the job").message);
    }
  }

  /** Ends the program: SIGTERM (on a terminal also SIGHUP), and two seconds later SIGKILL. */
  stop(reason: string): void {
    if (this.#record.state === "Ended") return;
    this.#set({ reason });
    this.#cancel.abort();
  }

  /** Sends the output from a position on until the job's end. `send` is awaited: a slow reader is no load. */
  async follow(from: number, send: (piece: Piece) => Promise<void>, gone: AbortSignal): Promise<void> {
    using reader = new OutputReader(jobDir(this.#jobsDir, this.#record.id), from);
    const left = new Promise<void>((resolve) => gone.addEventListener("abort", () => resolve()));
    while (!gone.aborted) {
      const changed = this.#changed.promise;
      const hasEnded = this.#record.state === "Ended";
      const piece = reader.read();
      if (piece) await send(piece);
      else if (hasEnded) return;
      else await Promise.race([changed, left]);
    }
  }

  /** Settles when everything about it is on disk. */
  async settle(): Promise<void> {
    await this.#written;
  }

  async #run(program: JobProgram, runner: JobRunner): Promise<number> {
    const { exit_code } = await runner.exec(program, {
      decided: (event_id, allowed) => this.#onDecided(event_id, allowed),
      output: (stream, data) => {
        this.#append(stream, Uint8Array.fromBase64(data));
        return Promise.resolve();
      },
      input: () => Promise.resolve(null),
    }, this.#cancel.signal);
    return exit_code;
  }

  async #runInTerminal(program: JobProgram, runner: JobRunner): Promise<number | undefined> {
    const opened = await runner.terminal(program, {
      decided: (event_id, allowed) => this.#onDecided(event_id, allowed),
      refused: (line) => this.#append("stderr", new TextEncoder().encode(line)),
    }, this.#cancel.signal);
    if (!opened) return NOT_PERMITTED;
    this.#terminal = opened;
    const kill = () => opened.kill().catch(ignore("the program has ended"));
    this.#cancel.signal.addEventListener("abort", kill);
    if (this.#cancel.signal.aborted) kill();
    await opened.attach({
      write: (bytes) => Promise.resolve(this.#append("stdout", bytes)),
      end: () => {},
    });
    return await opened.exit;
  }

  #onDecided(event_id: string, allowed: boolean): void {
    this.#set({ event_id, ...allowed ? { state: "Running" } : { reason: "policy blocked it" } });
    // One that was blocked ends at once.
    if (allowed) this.#decided.resolve();
  }

  #append(stream: Stream, bytes: Uint8Array): void {
    this.#output.append(stream, bytes);
    this.#wake();
  }

  #end(exit_code: number | undefined, failure?: string): void {
    this.#output.close();
    const reason = this.#record.reason ?? failure ?? (exit_code === undefined ? "its VM ended" : undefined);
    const ended_at = new Date().toISOString();
    const duration_ms = Date.parse(ended_at) - Date.parse(this.#record.started_at);
    this.#set({ state: "Ended", exit_code, reason, ended_at, duration_ms });
    this.#wake();
    this.#decided.resolve();
    this.#ended.resolve();
  }

  #wake(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
  }

  #set(change: Partial<JobRecord>): void {
    this.#record = { ...this.#record, ...change };
    this.#write();
  }

  /** A full disk delays nothing: the record here counts while this process runs. */
  #write(): void {
    this.#written = this.#written.then(() => writeJob(this.#jobsDir, this.#record)).catch((error) =>
      log.warn(`job ${this.#record.id}: ${asSbxError(error, "writing its record").message}`)
    );
  }
}

// Folders of jobs on disk: `job.json` and the segments of the output.

export function jobDir(jobsDir: string, id: string): string {
  return join(jobsDir, id);
}

/** Reads the jobs of a VM, the oldest first. One whose file is damaged is left out. */
export async function readJobs(jobsDir: string): Promise<JobRecord[]> {
  const jobs: JobRecord[] = [];
  try {
    for await (const { name } of Deno.readDir(jobsDir)) {
      const text = await Deno.readTextFile(join(jobsDir, name, "job.json")).catch(() => "null");
      const { data } = JobRecord.safeParse(parse(text));
      if (data?.id === name) jobs.push(data);
    }
  } catch (error) {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  }
  return jobs.sort((a, b) => a.started_at.localeCompare(b.started_at));
}

async function writeJob(jobsDir: string, job: JobRecord): Promise<void> {
  await writeAtomic(join(jobDir(jobsDir, job.id), "job.json"), JSON.stringify(job) + "\n");
}

function parse(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** Program of a job. */
export interface JobProgram {
  argv: string[];
  cwd?: string;
  user?: string;
  env?: Record<string, string>;
  /** of programs without a terminal */
  timeout_ms?: number;
  tty: boolean;
  /** trace that the request for it claims */
  trace_id?: string;
}

/** Receives the decision of policy on a program. */
export type OnDecided = (event_id: string, allowed: boolean) => void;

/** The guest, as jobs use it. */
export interface JobRunner {
  /** A value as it may be written down: refs for secrets. */
  scrub<T>(value: T): Promise<T>;
  /** Runs a program to its end; one that policy blocks exits with 126. */
  exec(
    program: JobProgram,
    streams: ExecStreams & { decided: OnDecided },
    cancelled: AbortSignal,
  ): Promise<{ exit_code: number }>;
  /** Opens a terminal with a program. @returns undefined if policy blocks it, which `refused` receives */
  terminal(
    program: JobProgram,
    on: { decided: OnDecided; refused(line: string): void },
    cancelled: AbortSignal,
  ): Promise<Terminal | undefined>;
}
