/** All services of one VM; `service.ts` runs each of them. */
import { SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import type { JobRecord, Jobs, ServiceStatus } from "../job/mod.ts";
import type { ServiceDefinition } from "./definition.ts";
import { type Pause, type ServiceGuest, ServiceRun } from "./service.ts";

type Definitions = Readonly<Record<string, ServiceDefinition>>;

/** A service that is not started again, for people to hear of. */
export interface FailedService {
  name: string;
  reason: string;
  /** it runs, and the health check of its image fails */
  is_unhealthy?: true;
}

/**
 * Services that have failed for good since before, for the record. The health of an image's program comes and
 * goes as its guest likes; each of its checks is recorded.
 */
export function newlyFailed(
  before: readonly FailedService[],
  failed: readonly FailedService[],
): FailedService[] {
  const known = new Set(before.filter(({ is_unhealthy }) => !is_unhealthy).map(({ name }) => name));
  return failed.filter(({ name, is_unhealthy }) => !is_unhealthy && !known.has(name));
}

/** Parts of a VM's process that its services use. */
export interface ServicesOptions {
  jobs: Jobs;
  guest: ServiceGuest;
  /** receives all services that have failed, when one fails or is started again */
  onFailed(failed: FailedService[]): void;
  /** waits between starts and checks; absent: as long as they say */
  pause?: Pause;
}

/** What to do with a service. */
export type ServiceAction = "start" | "stop" | "restart";

/** The services of one VM. */
export class Services {
  readonly #options: ServicesOptions;
  #definitions: Definitions = {};
  readonly #runs = new Map<string, ServiceRun>();
  readonly #ended = new AbortController();
  #changed = Promise.withResolvers<void>();
  #failed = "";
  /** orders wait for each other: two at once must not start a service twice */
  #turn: Promise<unknown> = Promise.resolve();

  constructor(options: ServicesOptions) {
    this.#options = options;
  }

  /** Takes a profile's services: new ones start, changed ones start again, and others end. */
  use(definitions: Definitions): Promise<void> {
    return this.#inTurn(async () => {
      const before = this.#definitions;
      this.#definitions = definitions;
      const isSame = (name: string) => JSON.stringify(before[name]) === JSON.stringify(definitions[name]);
      const changed = [...new Set([...Object.keys(before), ...Object.keys(definitions)])]
        .filter((name) => !isSame(name));
      await Promise.all(changed.map((name) => this.#stop(name, "its definition has changed")));
      for (const name of changed) {
        if (!Object.hasOwn(definitions, name)) this.#runs.delete(name);
        else if (!definitions[name].onDemand) await this.#start(name);
      }
      await this.#options.jobs.forgetServices(Object.keys(definitions));
      this.#tell();
    });
  }

  /**
   * Starts, ends or restarts one service. One before it that is not ready is waited for.
   *
   * @throws {SbxError} `service.not_found`
   */
  act(name: string, action: ServiceAction): Promise<JobRecord> {
    return this.#inTurn(async () => {
      if (!Object.hasOwn(this.#definitions, name)) {
        throw new SbxError("service.not_found", `the VM has no service ${JSON.stringify(name)}`, {
          hint: didYouMean(name, Object.keys(this.#definitions)) ??
            "sbx services lists the services of all VMs; [services] of the VM's profile defines them",
        });
      }
      if (action !== "start") await this.#stop(name, `stopped by sbx services ${action}`);
      if (action !== "stop") await this.#start(name);
      return this.#runs.get(name)!.job.record;
    });
  }

  /** The VM is about to stop: programs that end by a signal of their own get it, and time to end. */
  async settle(): Promise<void> {
    const named = Object.entries(this.#definitions).filter(([, { stop_signal }]) =>
      stop_signal !== undefined
    );
    await Promise.all(named.map(([name]) => this.#stop(name, "its VM stops")));
  }

  /** The VM has ended, or is away: the services go with it. */
  async end(): Promise<void> {
    this.#ended.abort();
    await Promise.all(Array.from(this.#runs.values(), ({ over }) => over));
  }

  async #start(name: string): Promise<void> {
    const run = this.#runs.get(name);
    if (this.#ended.signal.aborted || run && run.job.record.state !== "Ended") return;
    const { jobs, guest, pause } = this.#options;
    const { [name]: definition } = this.#definitions;
    const { command: argv, cwd, log_mb } = definition;
    const status: ServiceStatus = { name, state: "Waiting", restarts: 0 };
    const job = await jobs.keep({ argv, cwd, tty: false }, status, log_mb * 1024 * 1024);
    const others = {
      stateOf: (other: string) => Object.hasOwn(this.#definitions, other) ? this.#stateOf(other) : undefined,
      changed: () => this.#changed.promise,
      tell: () => this.#tell(),
    };
    this.#runs.set(
      name,
      new ServiceRun(name, definition, job, { guest, others, vmEnded: this.#ended.signal, pause }),
    );
    this.#tell();
  }

  async #stop(name: string, reason: string): Promise<void> {
    const run = this.#runs.get(name);
    if (!run || run.job.record.state === "Ended") return;
    run.job.stop(reason);
    await run.over;
  }

  #stateOf(name: string): ServiceStatus["state"] {
    // One that is about to be started.
    return this.#runs.get(name)?.status.state ?? "Waiting";
  }

  /** Wakes services that wait for others, and reports failures that are new or gone. */
  #tell(): void {
    this.#changed.resolve();
    this.#changed = Promise.withResolvers();
    const failed = Array.from(this.#runs.values(), ({ status }) => status).flatMap(
      ({ name, state, reason = "" }): FailedService[] =>
        state === "Failed"
          ? [{ name, reason }]
          : state === "Unhealthy"
          ? [{ name, reason, is_unhealthy: true }]
          : [],
    );
    const text = JSON.stringify(failed);
    if (text === this.#failed || this.#ended.signal.aborted) return;
    this.#failed = text;
    this.#options.onFailed(failed);
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#turn.then(work);
    this.#turn = done.catch((error) => log.debug(error));
    return await done;
  }
}
