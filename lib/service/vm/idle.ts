/** Unused VMs are suspended, if the settings and the host allow it. */
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Hypervisor } from "../../machine/vm/mod.ts";
import type { Registry } from "./registry.ts";
import type { Supervisor } from "./supervisor.ts";
import type { Vm } from "./vm.ts";

const SETTING = "vm.idle_suspend_minutes";
/** A minute of the setting in `s`; `SBX_IDLE_MINUTE_SECS` replaces it, for tests. */
const MINUTE_SECS = 60;
/**
 * Time between two checks of a VM, in `ms` (docs/design/contracts/14-limits.md §14); a short limit has so
 * many checks, none in less than the least.
 */
const LOOK_MS = 20_000;
const LOOKS = 4;
const LEAST_LOOK_MS = 2000;

export interface IdleSources {
  settings: SettingsStore;
  registry: Registry;
  supervisor: Pick<Supervisor, "suspend">;
  hypervisor: Pick<Hypervisor, "lackOf">;
}

/** Suspends the VMs of one home that were idle for long enough. */
export class IdleVms {
  readonly #sources: IdleSources;
  /** when a VM is tried again that could not be suspended, in `ms` of this process */
  readonly #notBefore = new WeakMap<Vm, number>();

  constructor(sources: IdleSources) {
    this.#sources = sources;
  }

  /** Their part of `sbx status`. */
  status(): { minutes: number; problem?: string } {
    const minutes = this.#minutes;
    const lack = this.#sources.hypervisor.lackOf("save_state");
    if (minutes === 0 || lack === undefined) return { minutes };
    return { minutes, problem: `${SETTING} has no effect: to suspend VMs, this host ${lack}` };
  }

  /** Checks the VMs from time to time; keeps no process alive. */
  watch(): void {
    const limitMs = this.#minutes * minuteMs();
    const wait = limitMs === 0 ? LOOK_MS : Math.min(LOOK_MS, Math.max(LEAST_LOOK_MS, limitMs / LOOKS));
    backgroundTimeout(() => void this.look().finally(() => this.watch()), wait);
  }

  /** Suspends the idle VMs, one after another: each is much to write. */
  async look(): Promise<void> {
    const { minutes, problem } = this.status();
    if (minutes === 0 || problem) return;
    for (const vm of this.#sources.registry.alive()) {
      await this.#lookAt(vm, minutes * minuteMs()).catch((error) => {
        // It is in use again, or ends.
        if (isSbxError(error, "vm.busy", "vm.wrong_state", "process.gone")) return;
        log.warn(asSbxError(error, `suspending "${vm.record.name}"`).message);
        this.#notBefore.set(vm, performance.now() + minutes * minuteMs());
      });
    }
  }

  async #lookAt(vm: Vm, limitMs: number): Promise<void> {
    if (vm.state.state !== "Running" || vm.record.parent || vm.record.live || vm.busy) return;
    const { ms } = await vm.process.call({ t: "Idle" });
    if (ms < limitMs || performance.now() < (this.#notBefore.get(vm) ?? 0)) return;
    await this.#sources.supervisor.suspend(vm, limitMs);
    log.info(`"${vm.record.name}" was idle for ${Math.round(ms / minuteMs())} minutes: it is suspended`);
  }

  get #minutes(): number {
    const value = this.#sources.settings.inForce(SETTING);
    return typeof value === "number" ? value : 0;
  }
}

function isSbxError(error: unknown, ...codes: string[]): boolean {
  return error instanceof SbxError && codes.includes(error.code);
}

function minuteMs(): number {
  return (Number(Deno.env.get("SBX_IDLE_MINUTE_SECS")) || MINUTE_SECS) * 1000;
}
