/**
 * Limits how many VMs run at once, and their memory together. Creates that may wait form a queue, and are
 * admitted in order (docs/design/contracts/02-http.md §2, "Queue").
 */
import type { QueueResult } from "../../client/api/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import { count } from "../../base/text/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { maxRamMb, maxRunning } from "./boot.ts";
import type { Registry } from "./registry.ts";

/** Most creates that wait (docs/design/contracts/14-limits.md §14). */
const WAITING_MAX = 1000;
/** Interval in `ms` at which waiting creates are tried: VMs end and limits change in many places. */
const RETRY_MS = 200;

/** A create that may wait. */
export interface Entering {
  name?: string;
  client?: string;
  ramMb: number;
  waitMs: number;
  /** aborts when its client has left */
  gone?: AbortSignal;
}

/** Room for one VM, held until it is given back or the VM is in the registry. */
export interface Place extends Disposable {
  hasWaited: boolean;
}

interface Waiting extends Entering {
  since: string;
  settled: PromiseWithResolvers<Place>;
}

/** Admits VMs within the limits of the home. */
export class Admission {
  readonly #registry: Pick<Registry, "alive">;
  readonly #settings: SettingsStore;
  readonly #waiting: Waiting[] = [];
  /** places of VMs that are not in the registry yet */
  readonly #reserved = new Set<{ ramMb: number }>();
  #timer?: ReturnType<typeof setInterval>;

  constructor(registry: Pick<Registry, "alive">, settings: SettingsStore) {
    this.#registry = registry;
    this.#settings = settings;
  }

  /**
   * Reserves room, at once or after the creates before it.
   *
   * @throws {SbxError} `vm.limit`: there is no room in time; `vm.too_large`: it would never fit; `vm.busy`:
   * too many wait
   */
  async enter(entering: Entering): Promise<Place> {
    this.#requirePossible(entering.ramMb);
    if (this.#waiting.length === 0 && this.#lack(entering.ramMb) === undefined) return this.#take(entering);
    if (entering.waitMs <= 0) throw this.#refusal(entering.ramMb);
    if (this.#waiting.length >= WAITING_MAX) {
      throw new SbxError("vm.busy", `${WAITING_MAX} creates wait for room, the limit`, {
        hint: "try again later",
      });
    }
    const waiting = { ...entering, since: new Date().toISOString(), settled: Promise.withResolvers<Place>() };
    this.#waiting.push(waiting);
    const deadline = backgroundTimeout(
      () => this.#leave(waiting, this.#refusal(entering.ramMb)),
      entering.waitMs,
    );
    const leave = () => this.#leave(waiting, new SbxError("vm.limit", "its client has left while it waited"));
    entering.gone?.addEventListener("abort", leave);
    if (entering.gone?.aborted) leave();
    this.#timer ??= setInterval(() => this.#admitNext(), RETRY_MS);
    try {
      return await waiting.settled.promise;
    } finally {
      clearTimeout(deadline);
      entering.gone?.removeEventListener("abort", leave);
    }
  }

  /**
   * Checks that a VM has room now, besides the admitted ones.
   * @throws {SbxError} `vm.limit`, `vm.too_large`
   */
  require(ramMb: number): void {
    this.#requirePossible(ramMb);
    if (this.#lack(ramMb) !== undefined) throw this.#refusal(ramMb);
  }

  /** True if a create of now would have to wait, whatever its memory. */
  get isFull(): boolean {
    return this.#waiting.length > 0 || this.#use().vms >= maxRunning(this.#settings);
  }

  /** The creates that wait, the next one first. */
  queue(): QueueResult {
    const { vms, ramMb } = this.#use();
    return {
      running: vms,
      max_running: maxRunning(this.#settings),
      ram_mb: ramMb,
      max_ram_mb: maxRamMb(this.#settings) ?? null,
      waiting: this.#waiting.map(({ name, client, ramMb, since }) => ({
        ...name !== undefined && { name },
        ...client !== undefined && { client },
        ram_mb: ramMb,
        since,
      })),
    };
  }

  /**
   * Admits creates as long as they have room. Smaller ones do not overtake a large one, which would starve.
   */
  #admitNext(): void {
    for (let next = this.#waiting[0]; next && this.#lack(next.ramMb) === undefined; next = this.#waiting[0]) {
      this.#waiting.shift();
      next.settled.resolve(this.#take(next, true));
    }
    if (this.#waiting.length > 0) return;
    clearInterval(this.#timer);
    this.#timer = undefined;
  }

  #leave(waiting: Waiting, error: SbxError): void {
    const at = this.#waiting.indexOf(waiting);
    if (at < 0) return;
    this.#waiting.splice(at, 1);
    waiting.settled.reject(error);
    this.#admitNext();
  }

  #take({ ramMb }: Entering, hasWaited = false): Place {
    const reserved = { ramMb };
    this.#reserved.add(reserved);
    return { hasWaited, [Symbol.dispose]: () => void this.#reserved.delete(reserved) };
  }

  #use(): { vms: number; ramMb: number } {
    const all = [
      ...this.#registry.alive().map(({ record }) => record.ram_mb),
      ...[...this.#reserved].map(({ ramMb }) => ramMb),
    ];
    return { vms: all.length, ramMb: all.reduce((sum, ramMb) => sum + ramMb, 0) };
  }

  /** The limit that a VM of this size would exceed now. */
  #lack(ramMb: number): "vms" | "memory" | undefined {
    const used = this.#use();
    if (used.vms >= maxRunning(this.#settings)) return "vms";
    return used.ramMb + ramMb > (maxRamMb(this.#settings) ?? Infinity) ? "memory" : undefined;
  }

  #refusal(ramMb: number): SbxError {
    const used = this.#use();
    const is = count(used.vms, "VM is", "VMs are");
    const hint =
      "stop one with sbx stop (sbx list shows them), raise the setting, or wait for room with --queue SECONDS";
    if (this.#lack(ramMb) === "memory") {
      const message =
        `${is} running with ${used.ramMb} MiB, and ${ramMb} more exceed vm.resources.max_ram_gb`;
      return new SbxError("vm.limit", message, { hint });
    }
    const waiting = this.#waiting.length === 0
      ? ""
      : `, and ${count(this.#waiting.length, "create waits", "creates wait")}`;
    return new SbxError("vm.limit", `${is} running, the limit of vm.resources.max_concurrent_vms${waiting}`, {
      hint,
    });
  }

  #requirePossible(ramMb: number): void {
    const max = maxRamMb(this.#settings);
    if (max === undefined || ramMb <= max) return;
    throw new SbxError("vm.too_large", `a VM of ${ramMb} MiB exceeds vm.resources.max_ram_gb alone`, {
      hint: "give it less memory with --ram, or raise that setting",
    });
  }
}
