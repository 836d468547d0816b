/** Programs in VMs that are thrown away afterwards (`POST /run`). */
import type { RunRequest, RunResult } from "../../client/api/mod.ts";
import { asSbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { execBuffered, execStreamed, type Send, type TracedExec } from "./exec.ts";
import { sessionEvents } from "../record/ledger.ts";
import type { Supervisor } from "../vm/supervisor.ts";
import type { Vm } from "../vm/vm.ts";

/** A VM that exists for one program. */
export class OneOffVm {
  readonly #supervisor: Supervisor;
  readonly #vm: Vm;
  readonly #request: TracedExec;

  private constructor(supervisor: Supervisor, vm: Vm, request: TracedExec) {
    this.#supervisor = supervisor;
    this.#vm = vm;
    this.#request = request;
  }

  static async create(
    supervisor: Supervisor,
    request: RunRequest & Pick<TracedExec, "trace_id">,
    client: string,
    gone?: AbortSignal,
  ): Promise<OneOffVm> {
    const { profile_id, cpus, ram_mb, arch, image, limits, queue_secs, ...execRequest } = request;
    // Without a disk, which would have to be made and removed: writes outside the workspace stay in memory.
    const made = { profile_id, cpus, ram_mb, arch, image, limits, queue_secs, persistent: false };
    const vm = await supervisor.create(made, {
      scratch: false,
      client,
      gone,
    });
    return new OneOffVm(supervisor, vm, execRequest);
  }

  /** Runs the program, removes the VM, and returns the output with the session's events. */
  async runBuffered(): Promise<RunResult> {
    const result = await this.#discardAfter(async () => ({
      ...await execBuffered(this.#vm, this.#request),
      vm: this.#supervisor.info(this.#vm),
    }));
    // The ledger is complete once the VM's process has ended, and it outlives the VM.
    return { ...result, ...await sessionEvents(this.#vm) };
  }

  /** Runs the program, removes the VM, and sends everything as events. */
  async runStreamed(send: Send, gone: AbortSignal): Promise<void> {
    await this.#discardAfter(async () => {
      await send("booted", this.#supervisor.info(this.#vm));
      await execStreamed(this.#vm, this.#request, send, gone);
    });
    await send("events", await sessionEvents(this.#vm));
  }

  /** Removes the VM after the work. A VM whose boot failed stays, Defunct, with its logs. */
  async #discardAfter<T>(work: () => Promise<T>): Promise<T> {
    await this.#supervisor.booted(this.#vm);
    try {
      return await work();
    } finally {
      await this.#supervisor.delete(this.#vm, { force: true, keeps: false }).catch((error) =>
        this.#leaveBehind(error)
      );
    }
  }

  /** Its client may be gone by now: the list of VMs shows the failure. */
  #leaveBehind(cause: unknown): never {
    const { message } = asSbxError(cause, "removing the VM");
    log.warn(`VM "${this.#vm.record.name}" was not removed: ${message}`);
    const last_error = `it was not removed after its program: ${message}`;
    this.#vm.state = { ...this.#vm.state, last_error };
    throw cause;
  }
}
