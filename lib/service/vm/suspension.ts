/**
 * VMs whose memory is on disk, while no machine of theirs runs; unused VMs are suspended, if the settings
 * allow it.
 */
import type { Assets } from "../../release/asset/mod.ts";
import { asSbxError, SbxError } from "../../base/error/mod.ts";
import type { MachineInfo } from "../../session/ipc/mod.ts";
import {
  discardSuspended,
  isSuspended,
  readOrigin,
  type VmPaths,
  type VmRecord,
  writeState,
} from "../../session/mod.ts";
import type { AcceleratorChoice, Hypervisor } from "../../machine/vm/mod.ts";
import type { AcceleratorChooser } from "./accelerator.ts";
import type { Vm } from "./vm.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundTimeout } from "../../base/time/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import type { Registry } from "./registry.ts";

/** The host's machines. */
interface Host {
  accelerators: Pick<AcceleratorChooser, "choose">;
  hypervisor: Pick<Hypervisor, "identity">;
}

/** Features that need a running VM, in words. */
export type Asker = "a program" | "a service" | "a terminal" | "a port" | "a file" | "an MCP tool";

/** True if a suspended VM resumes automatically: its suspension was not ordered. */
export function comesBack({ state }: Pick<Vm, "state">): boolean {
  return state.state === "Suspended" && state.suspended_by === "idle";
}

/** The part of a suspended VM that a new start must keep: memory fits only the machine that wrote it. */
export async function keptMachine(
  { record, paths }: Pick<Vm, "record" | "paths">,
): Promise<Partial<VmRecord>> {
  if (!await isSuspended(paths)) return {};
  const { cpus, ram_mb, assets } = record;
  return { cpus, ram_mb, assets };
}

/** Gives up a VM's memory, as if its machine had been switched off. @returns its state then */
export async function forgetMemory({ paths, state }: Vm): Promise<MachineInfo> {
  await discardSuspended(paths);
  const stopped: MachineInfo = { ...state, state: "Stopped", last_error: undefined };
  await writeState(paths, stopped);
  return stopped;
}

/**
 * The accelerator that a VM starts with: for memory that of its machine, which any
 * processor has for an emulated one.
 *
 * @throws {SbxError} `vm.host_differs`: the memory is of a machine that this host does not run
 */
export async function acceleratorOf(
  { record, paths }: Pick<Vm, "record"> & { paths: VmPaths },
  { accelerators, hypervisor }: Host,
  assets?: Assets,
): Promise<AcceleratorChoice> {
  const origin = await isSuspended(paths) ? await readOrigin(paths) : undefined;
  if (!origin) return await accelerators.choose(assets);
  const { accelerator, host } = origin;
  if (accelerator === "tcg") return { accelerator, reason: "its memory is of an emulated machine" };
  const choice = await accelerators.choose(assets);
  const differs = (what: string, remedy: string) =>
    new SbxError("vm.host_differs", `the memory of "${record.name}" is of ${what}`, {
      hint: `${remedy}; sbx stop ${record.name} gives its memory up: it then starts from its disk`,
    });
  if (choice.accelerator !== accelerator) {
    throw differs(
      `a machine under ${accelerator}, and this host's machines are under ${choice.accelerator}: ${choice.reason}`,
      "sbx doctor tries again what this host can do",
    );
  }
  const { cpus, ram_mb, assets: { arch } } = record;
  const here = await hypervisor.identity({ arch, cpus, ramMb: ram_mb, accelerator });
  const lack = lackOfProcessor(host.processor, here.processor);
  if (lack === undefined) return choice;
  throw differs(`a machine on another processor: ${lack}`, "resume it on a machine with that processor");
}

/** Names of the lists of features in a processor's description. */
const FEATURES = ["flags", "Features"];
/** Most features that an error names. */
const NAMED_MAX = 5;

/**
 * Processor properties that memory needs and this host lacks: the same model, with at least its features.
 *
 * @param needed lines of `name: value`, like `here`
 */
export function lackOfProcessor(needed: string, here: string): string | undefined {
  const ours = linesOf(here);
  for (const [name, value] of linesOf(needed)) {
    const own = ours.get(name) ?? "";
    if (!FEATURES.includes(name)) {
      if (own !== value) return `it needs ${name} ${value}, this host has ${own || "none"}`;
      continue;
    }
    const has = new Set(own.split(" "));
    const missing = value.split(" ").filter((feature) => !has.has(feature));
    if (missing.length > 0) {
      return `it needs ${missing.slice(0, NAMED_MAX).join(", ")}, which this host lacks`;
    }
  }
  return undefined;
}

function linesOf(description: string): Map<string, string> {
  return new Map(
    description.split("\n").map((line) => {
      const colon = line.indexOf(":");
      const [name, value] = colon < 0 ? ["processor", line] : [line.slice(0, colon), line.slice(colon + 1)];
      return [name.trim(), value.trim()];
    }),
  );
}

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

interface IdleSources {
  settings: SettingsStore;
  registry: Registry;
  supervisor: { suspend(vm: Vm, idleMs: number): Promise<void> };
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
