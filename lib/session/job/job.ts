/** One background program of a VM, with its output and its state on disk. */
import { asSbxError, ignore, type SbxError } from "../../base/error/mod.ts";
import { join } from "node:path";
import { writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { ExecStreams, Terminal } from "../../machine/guest/mod.ts";
import { JobOutput, outputEnd, OutputReader, type Piece, type Stream } from "./output.ts";
import { JobRecord, type ServiceStatus } from "./schema.ts";

/** Exit code of a program that policy blocked (docs/design/contracts/02-http.md §2). */
const NOT_PERMITTED = 126;

/** One program in the background, with its output on disk. */
export class Job {
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
   * @param kept of a service: its state, and the most `bytes` of its output, which goes on where it was
   */
  constructor(
    jobsDir: string,
    id: string,
    { argv, cwd, tty }: Pick<JobProgram, "argv" | "cwd" | "tty">,
    kept?: { service: ServiceStatus; bytes: number },
  ) {
    this.decided = this.#decided.promise;
    this.ended = this.#ended.promise;
    this.#jobsDir = jobsDir;
    const service = kept && { service: kept.service };
    this.#record = { id, argv, cwd, tty, state: "Waiting", started_at: new Date().toISOString(), ...service };
    const dir = jobDir(jobsDir, id);
    this.#output = kept ? new JobOutput(dir, outputEnd(dir), kept.bytes) : new JobOutput(dir);
    this.#write();
  }

  get record(): JobRecord {
    return this.#record;
  }

  /** Aborts when it is stopped. */
  get stopped(): AbortSignal {
    return this.#cancel.signal;
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

  /**
   * Runs the program of a service once; the job goes on after its end.
   *
   * @param onDecided gets the decision of policy
   * @param started gets its process id
   */
  async once(
    program: JobProgram,
    runner: Pick<JobRunner, "exec">,
    cancelled: AbortSignal,
    onDecided: (allowed: boolean) => void,
    started?: (pid: number) => void,
  ): Promise<RunEnd> {
    let isBlocked = false;
    try {
      const { exit_code } = await runner.exec(program, {
        decided: (event_id, allowed) => {
          isBlocked = !allowed;
          this.note({ event_id });
          onDecided(allowed);
        },
        output: (stream, data) => {
          this.#append(stream, Uint8Array.fromBase64(data));
          return Promise.resolve();
        },
        input: () => Promise.resolve(null),
        started,
      }, cancelled);
      return { exit_code, isBlocked };
    } catch (error) {
      return { isBlocked, failure: asSbxError(error, "the service") };
    }
  }

  /** Notes a change of a service. */
  note(change: Partial<JobRecord>): void {
    this.#set(change);
  }

  /** The service ends. @param exit_code absent: unknown */
  close(exit_code: number | undefined, reason?: string): void {
    if (this.#record.state !== "Ended") this.#end(exit_code, reason);
  }

  /** Its VM is away with its memory: the service goes on there. */
  leave(): void {
    this.#output.close();
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

export async function writeJob(jobsDir: string, job: JobRecord): Promise<void> {
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
  /** that it is, or, not kept, that it checks */
  service?: { name: string; isKept: boolean };
}

/** The end of a service's program. */
export interface RunEnd {
  /** absent: unknown */
  exit_code?: number;
  /** policy did not let it run */
  isBlocked: boolean;
  /** it did not run to its end, or its end is unknown */
  failure?: SbxError;
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
