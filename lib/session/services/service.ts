/**
 * One service of a VM: start, readiness, restarts with back-off, and stop. `services.ts` has all services of
 * the VM.
 */
import { SbxError } from "../../base/error/mod.ts";
import { plain } from "../../base/print/mod.ts";
import { backgroundTimeout, timeLimit } from "../../base/time/mod.ts";
import { LAYER_PATH } from "../../machine/guest/wire/mod.ts";
import type { HealthCheck } from "../../release/environment/schema.ts";
import type { Job, JobProgram, JobRunner, RunEnd, ServiceState, ServiceStatus } from "../job/mod.ts";
import type { ServiceDefinition as Definition } from "./definition.ts";
import { CheckPace } from "./pace.ts";

// Limits of services (docs/design/contracts/14-limits.md §14).

/** First and longest wait before a service starts again, in `ms`; it doubles with each failure in a row. */
const BACK_OFF_MS = 1000;
const BACK_OFF_MAX_MS = 60_000;
/** Failures in a row after which a service is not started again. */
export const FAILURES_MAX = 10;
/** Run after which an end is no failure in a row, in `ms`. */
const STABLE_MS = 60_000;
/** First and longest wait between checks whether a service is ready, in `ms`. */
const CHECK_MS = 200;
const CHECK_MAX_MS = 5000;
/** Longest run of a program that checks, in `ms`. */
const CHECK_RUN_MS = timeLimit(10_000);
/** Longest wait for the end of a program that was ended, in `ms`: SIGKILL comes after two seconds. */
const END_MS = timeLimit(10_000);
/** Time that a program has to end after the signal that its image names, in `ms`: Docker's. */
const STOP_MS = timeLimit(10_000);
/** Output of a check that its reason may quote, in `bytes`; the last of it. */
const CHECK_OUTPUT_BYTES = 1024;
/** Most characters of a reason. */
const REASON_MAX = 200;

/** The guest of services. */
export interface ServiceGuest extends Pick<JobRunner, "exec"> {
  /** settles when it runs: true, or is gone or being stopped: false */
  present(): Promise<boolean>;
  /** true if a program of it listens on the port; no event */
  listens(port: number): Promise<boolean>;
}

/** Other services, as one sees them. */
export interface Others {
  /** @returns undefined: there is no such service */
  stateOf(name: string): ServiceState | undefined;
  /** resolves at the next change of any service */
  changed(): Promise<void>;
  /** receives each change of this one */
  tell(status: ServiceStatus): void;
}

/** Time before a service starts again, in `ms`. @param failures in a row, at least 1 */
export function backOff(failures: number): number {
  return Math.min(BACK_OFF_MS * 2 ** (failures - 1), BACK_OFF_MAX_MS);
}

/** One start of one service, until it is stopped, done or failed, or its VM ends. */
export class ServiceRun {
  readonly name: string;
  readonly job: Job;
  /** settles when it is over */
  readonly over: Promise<void>;
  readonly #definition: Definition;
  readonly #guest: ServiceGuest;
  readonly #others: Others;
  readonly #vmEnded: AbortSignal;
  readonly #pause: Pause;

  constructor(
    name: string,
    definition: Definition,
    job: Job,
    { guest, others, vmEnded, pause = pauseFor }: {
      guest: ServiceGuest;
      others: Others;
      vmEnded: AbortSignal;
      pause?: Pause;
    },
  ) {
    this.name = name;
    this.job = job;
    this.#definition = definition;
    this.#guest = guest;
    this.#others = others;
    this.#vmEnded = vmEnded;
    this.#pause = pause;
    this.over = this.#keep();
  }

  get status(): ServiceStatus {
    return this.job.record.service!;
  }

  get #gone(): AbortSignal {
    return AbortSignal.any([this.job.stopped, this.#vmEnded]);
  }

  async #keep(): Promise<void> {
    const { restart } = this.#definition;
    const gone = this.#gone;
    for (let failures = 0; await this.#turnComes(gone);) {
      const began = performance.now();
      const { exit_code, isBlocked, failure, late, refused } = await this.#once(gone);
      if (this.#vmEnded.aborted) break;
      // The host has let go of it, for a copy of the VM or to suspend it.
      if (failure?.code === "vm.suspended") continue;
      this.#note({ last_exit_code: exit_code, last_ended_at: new Date().toISOString() });
      if (gone.aborted || !await this.#guest.present()) break;
      if (isBlocked) return this.#end("Failed", "policy blocked it", exit_code);
      if (refused) return this.#end("Failed", "policy blocked the program that checks it", exit_code);
      const why = late ?? failure?.message ?? `exit code ${exit_code}`;
      const isGood = exit_code === 0 && !late;
      if (isGood && restart !== "always") return this.#end("Done", undefined, exit_code);
      if (restart === "no") return this.#end("Failed", why, exit_code);
      failures = performance.now() - began >= STABLE_MS ? 1 : failures + 1;
      if (failures >= FAILURES_MAX) {
        return this.#end("Failed", `${why}; it failed ${FAILURES_MAX} times in a row`, exit_code);
      }
      this.#set("Restarting", why);
      await this.#pause(backOff(failures), gone);
      if (!gone.aborted) this.#note({ restarts: this.status.restarts + 1 });
    }
    if (this.job.stopped.aborted) {
      return this.#end("Stopped", this.job.record.reason, this.status.last_exit_code);
    }
    // Its VM has ended, or is away with it.
    this.job.leave();
  }

  /** Waits until all services before it are ready or done. @returns false: it is over */
  async #turnComes(gone: AbortSignal): Promise<boolean> {
    const left = aborted(gone);
    while (!gone.aborted) {
      const changed = this.#others.changed();
      const waits = this.#definition.after.map((name) => ({ name, state: this.#others.stateOf(name) }))
        // One that is not there any more is no reason to wait.
        .find(({ state }) => state !== undefined && state !== "Ready" && state !== "Done");
      if (!waits) return await this.#guest.present() && !gone.aborted;
      const { name, state } = waits;
      this.#set("Waiting", `after ${name}, which is ${state}`);
      await Promise.race([changed, left]);
    }
    return false;
  }

  /** Runs the program to its end. */
  async #once(gone: AbortSignal): Promise<RunEnd & { late?: string; refused?: boolean }> {
    const { command: argv, cwd, user, env, ready, restart, health } = this.#definition;
    this.#set("Starting");
    const run = new AbortController();
    const ended = new AbortController();
    const decided = Promise.withResolvers<boolean>();
    const service = { name: this.name, isKept: true };
    const program: JobProgram = { argv, cwd, user, env, tty: false, service };
    let pid: number | undefined;
    const cancel = AbortSignal.any([this.#ending(gone, ended.signal, () => pid), run.signal]);
    // A guest may leave an order to end it unanswered for ever.
    const unanswered = aborted(cancel).then(() => this.#pause(END_MS, ended.signal)).then((): RunEnd => ({
      isBlocked: false,
      failure: new SbxError("guest.failed", "the guest did not end its program"),
    }));
    const once = this.job.once(program, this.#guest, cancel, decided.resolve, (id) => void (pid = id));
    const end = Promise.race([once, unanswered])
      .finally(() => {
        ended.abort();
        decided.resolve(false);
      });
    let late: string | undefined, refused: boolean | undefined;
    if (await decided.promise) {
      const stop = AbortSignal.any([gone, ended.signal]);
      const answer = health
        ? await this.#watch(health, stop)
        : ready
        ? await this.#check(ready, stop)
        : "ready";
      // A task is never ready but done.
      const isTask = !ready && restart === "no";
      if (answer === "ready" && !stop.aborted && !isTask) this.#set("Ready");
      if (answer === "late") late = `was not ready in ${ready!.secs} s`;
      refused = answer === "refused";
      if (late || refused) run.abort();
    }
    return { ...await end, late, refused };
  }

  /**
   * Checks whether it is ready, until it is or its time is over. Time in which the
   * VM stands still does not count.
   */
  async #check(
    { port, command, secs }: NonNullable<Definition["ready"]>,
    stop: AbortSignal,
  ): Promise<"ready" | "late" | "refused" | "over"> {
    const over = aborted(stop);
    let left = timeLimit(secs * 1000);
    for (let wait = CHECK_MS; left > 0; wait = Math.min(2 * wait, CHECK_MAX_MS)) {
      if (!await this.#guest.present() || stop.aborted) return "over";
      const began = performance.now();
      const check = port === undefined ? this.#succeeds(command!, stop) : this.#listens(port);
      const answer = await Promise.race([check, over]);
      if (stop.aborted || answer === undefined) return "over";
      if (answer !== "no") return answer === "yes" ? "ready" : "refused";
      await this.#pause(wait, stop);
      if (stop.aborted) return "over";
      left -= Math.max(wait, performance.now() - began);
    }
    return "late";
  }

  /**
   * Aborts when its program is to be ended as any other: at once, or after the signal that its image names
   * and some time to end by it.
   */
  #ending(gone: AbortSignal, ended: AbortSignal, pid: () => number | undefined): AbortSignal {
    const { stop_signal } = this.#definition;
    if (stop_signal === undefined) return gone;
    const over = new AbortController();
    aborted(gone).then(async () => {
      const stop = AbortSignal.any([ended, this.#vmEnded]);
      const id = pid();
      if (!stop.aborted && id !== undefined) {
        const argv = [`${LAYER_PATH}/bin/busybox`, "kill", "-s", `${stop_signal}`, `${id}`];
        // Policy may ask a person about it, and ending a VM waits for no answer.
        const asked = new AbortController();
        const late = AbortSignal.any([stop, asked.signal]);
        // By number: an image may know no users.
        const signalled = this.#run({ argv, cwd: "/", user: "0" }, CHECK_RUN_MS, late);
        const done = await Promise.race([signalled, this.#pause(CHECK_RUN_MS, late)]);
        asked.abort();
        if (done?.answer === "yes") await this.#pause(STOP_MS, stop);
      }
      over.abort();
    });
    return over.signal;
  }

  /** Repeats the health check of its image for as long as it runs. */
  async #watch(health: HealthCheck, stop: AbortSignal): Promise<"refused" | "over"> {
    const began = performance.now();
    let failures = 0;
    let wasHealthy = false;
    const isStarting = () => !wasHealthy && performance.now() - began < health.start_ms;
    const pace = new CheckPace();
    for (let isFirst = true, isSettled = false;; isFirst = false) {
      const often = isFirst || isStarting() ? health.start_interval_ms : health.interval_ms;
      await this.#pause(pace.next(Math.min(often, health.interval_ms), isSettled), stop);
      if (stop.aborted || !await this.#guest.present()) return "over";
      const { cwd, user, env } = this.#definition;
      const check = this.#run({ argv: health.command, cwd, user, env }, health.timeout_ms, stop);
      const done = await unless(stop, check);
      if (stop.aborted || done === undefined) return "over";
      if (done.answer === "refused") return "refused";
      const { state } = this.status;
      if (done.answer === "yes") {
        isSettled = state === "Ready" && failures === 0;
        [failures, wasHealthy] = [0, true];
        this.#set("Ready");
      } else {
        isSettled = state === "Unhealthy";
        if (!isStarting() && ++failures >= health.retries) this.#set("Unhealthy", done.why);
      }
    }
  }

  async #listens(port: number): Promise<"yes" | "no"> {
    return await this.#guest.listens(port).catch(() => false) ? "yes" : "no";
  }

  async #succeeds(argv: string[], stop: AbortSignal): Promise<"yes" | "no" | "refused"> {
    const { cwd, user, env } = this.#definition;
    return (await this.#run({ argv, cwd, user, env }, CHECK_RUN_MS, stop)).answer;
  }

  /** Runs a program for it, such as one that checks it: one like others, decided by policy and recorded. */
  async #run(
    own: Pick<JobProgram, "argv" | "cwd" | "user" | "env">,
    timeout_ms: number,
    stop: AbortSignal,
  ): Promise<{ answer: "yes" | "no" | "refused"; why: string }> {
    const program: JobProgram = {
      ...own,
      tty: false,
      timeout_ms,
      service: { name: this.name, isKept: false },
    };
    let isBlocked = false;
    let output = new Uint8Array();
    let why = "";
    const exit_code = await this.#guest.exec(program, {
      decided: (_, allowed) => void (isBlocked = !allowed),
      output(_, data) {
        const last = Uint8Array.fromBase64(data).slice(-CHECK_OUTPUT_BYTES);
        output = new Uint8Array([...output, ...last].slice(-CHECK_OUTPUT_BYTES));
        return Promise.resolve();
      },
      input: () => Promise.resolve(null),
    }, stop).then(({ exit_code }) => exit_code, (error) => void (why = `${error.message}`));
    if (exit_code !== undefined) {
      const last = new TextDecoder().decode(output).trim().split("\n").at(-1)!;
      why = `exit code ${exit_code}${last === "" ? "" : `: ${last}`}`;
    }
    return { answer: isBlocked ? "refused" : exit_code === 0 ? "yes" : "no", why };
  }

  #end(state: "Done" | "Failed" | "Stopped", reason?: string, exit_code?: number): void {
    const text = reasonOf(reason);
    this.#note({ state, reason: text });
    this.job.close(exit_code, text);
  }

  #set(state: ServiceState, reason?: string): void {
    const text = reasonOf(reason);
    if (this.status.state === state && this.status.reason === text) return;
    this.#note({ state, reason: text });
  }

  #note(change: Partial<ServiceStatus>): void {
    const status = { ...this.status, ...change };
    const isRunning = ["Ready", "Starting", "Unhealthy"].includes(status.state);
    this.job.note({ service: status, state: isRunning ? "Running" : "Waiting" });
    this.#others.tell(status);
  }
}

/** A reason as it is kept and shown; the guest may have chosen its words. */
function reasonOf(reason: string | undefined): string | undefined {
  return reason === undefined ? undefined : plain(reason).slice(0, REASON_MAX);
}

/** Waits, or until a signal aborts. */
export type Pause = (ms: number, signal: AbortSignal) => Promise<void>;

async function pauseFor(ms: number, signal: AbortSignal): Promise<void> {
  const over = Promise.withResolvers<void>();
  const timer = backgroundTimeout(over.resolve, ms);
  await unless(signal, over.promise);
  clearTimeout(timer);
}

/**
 * The result of some work, or undefined as soon as a signal aborts. It leaves nothing
 * at the signal: a service may run for years.
 */
async function unless<T>(signal: AbortSignal, work: Promise<T>): Promise<T | undefined> {
  if (signal.aborted) return undefined;
  const left = Promise.withResolvers<undefined>();
  const leave = () => left.resolve(undefined);
  signal.addEventListener("abort", leave);
  return await Promise.race([work, left.promise]).finally(() => signal.removeEventListener("abort", leave));
}

function aborted(signal: AbortSignal): Promise<void> {
  return new Promise((resolve) => {
    if (signal.aborted) resolve();
    else signal.addEventListener("abort", () => resolve(), { once: true });
  });
}
