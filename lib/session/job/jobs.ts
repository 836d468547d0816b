import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import type { Terminal } from "../../machine/guest/mod.ts";
import { Job, jobDir, type JobProgram, type JobRunner, readJobs, writeJob } from "./job.ts";
import { JOBS_KEPT, JOBS_RUNNING_MAX } from "./output.ts";
import type { JobRecord, ServiceStatus } from "./schema.ts";

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
    const running = this.#jobs.values().filter(({ record }) => record.state !== "Ended" && !record.service);
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

  /**
   * Makes a job of a service, in place of its earlier one, whose output it goes on with.
   *
   * @param bytes most of its output
   */
  async keep(program: JobProgram, service: ServiceStatus, bytes: number): Promise<Job> {
    await this.#open();
    const id = this.#all().find((record) => record.service?.name === service.name)?.id ?? this.#newId();
    await this.#jobs.get(id)?.settle();
    await Deno.mkdir(jobDir(this.#dir, id), { recursive: true, mode: 0o700 }).catch((error) => {
      throw asSbxError(error, `starting the service "${service.name}"`);
    });
    const { argv, cwd } = await this.#runner.scrub({ argv: program.argv, cwd: program.cwd });
    const job = new Job(this.#dir, id, { argv, cwd, tty: false }, { service, bytes });
    this.#past.delete(id);
    this.#jobs.set(id, job);
    return job;
  }

  /** Forgets the ended services except these. */
  async forgetServices(names: readonly string[]): Promise<void> {
    await this.#open();
    for (const { id, service, state } of this.#all()) {
      if (service && state === "Ended" && !names.includes(service.name)) await this.#remove(id);
    }
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
    const ended = this.#all().filter(({ state, service }) => state === "Ended" && !service);
    for (const { id } of ended.slice(0, Math.max(0, ended.length - JOBS_KEPT))) await this.#remove(id);
  }

  async #remove(id: string): Promise<void> {
    const job = this.#jobs.get(id);
    this.#past.delete(id);
    this.#jobs.delete(id);
    await job?.settle();
    await Deno.remove(jobDir(this.#dir, id), { recursive: true }).catch(
      ignore("a folder that stays is read again, and removed later"),
    );
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
  const reason = record.reason ?? "its VM ended";
  const service = record.service && { service: { ...record.service, state: "Stopped" as const, reason } };
  return { ...record, state: "Ended", reason, ...service };
}

async function waitFor(promise: Promise<void>, ms: number): Promise<void> {
  let timer: ReturnType<typeof setTimeout> | undefined;
  await Promise.race([promise, new Promise((resolve) => timer = setTimeout(resolve, ms))]);
  clearTimeout(timer);
}
