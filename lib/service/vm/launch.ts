/** Starts the processes of VMs, and follows them until they end. */
import { type Assets, verifyAssets } from "../../release/asset/mod.ts";
import type { SecretPrograms } from "../contract/secret_programs.ts";
import type { Home } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { isSuspended, writeState } from "../../session/mod.ts";
import type { SettingsStore } from "../../config/settings/mod.ts";
import { recordStep } from "../../release/setup/mod.ts";
import { type AcceleratorChoice, type Hypervisor, isEnlarged } from "../../machine/vm/mod.ts";
import type { AcceleratorChooser } from "./accelerator.ts";
import type { ProcessNotice } from "../notice.ts";
import type { ReplyTo } from "../../session/ipc/mod.ts";
import { SpareProcess } from "./spare.ts";
import { acceleratorOf } from "./suspension.ts";
import type { Sessions } from "../record/sessions.ts";
import type { Witnesses } from "../record/witness.ts";
import type { Templates } from "./templates.ts";
import { isAlive, type Vm } from "./vm.ts";
import { isForeign, settle } from "./vm_process.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { type Detached, spawnDetached } from "../../base/spawn/mod.ts";
import { timeLimit } from "../../base/time/mod.ts";

/** The launcher's surroundings. */
export interface LauncherOptions {
  home: Home;
  settings: SettingsStore;
  accelerators: AcceleratorChooser;
  hypervisor: Hypervisor;
  templates: Templates;
  secrets: Pick<SecretPrograms, "provide">;
  sessions: Pick<Sessions, "begin">;
  witnesses: Pick<Witnesses, "begin" | "take" | "ended">;
  /** a VM's process reported a state, or has ended */
  onState(vm: Vm, state: Vm["state"]): void;
  /** a VM's process reported news of its session */
  onNotice(vm: Vm, notice: ProcessNotice): void;
  /** a turn of an agent waits for its state to be kept */
  onTurn(vm: Vm, turn: ReplyTo<"Watch"> & { t: "Turn" }): void;
}

/** Starts the processes of VMs and follows them until they end. */
export class Launcher {
  readonly #options: LauncherOptions;
  readonly #spare: SpareProcess;

  constructor(options: LauncherOptions) {
    this.#options = options;
    this.#spare = new SpareProcess(options);
  }

  /** Id for a new VM, whose machine may run already; {@linkcode unclaim} returns an unused one. */
  claimId(): string {
    return this.#spare.claim() ?? crypto.randomUUID();
  }

  unclaim(id: string): Promise<void> {
    return this.#spare.release(id);
  }

  /**
   * Starts the VM's process, verifies the assets meanwhile, and orders the
   * boot; returns once that is ordered.
   *
   * @param by the source of memory on the VM's disk, if there is some
   * @throws {SbxError} `vm.boot_failed`, `assets.mismatch`, `assets.missing`; the VM is Defunct then
   */
  async launch(vm: Vm, assets: Assets, by: "resume" | "fork" = "resume"): Promise<void> {
    const { home } = this.#options;
    vm.state = { state: "Booting", boot_stages: [], pid: 0 };
    // The last report of the process before this one may still be on its way.
    vm.watch = undefined;
    // Its process opens the ledger at once.
    await this.#options.witnesses.begin(vm.record.id);
    const process = await spawnProcess(home, vm, this.#spare);
    try {
      const [choice] = await Promise.all([
        acceleratorOf(vm, this.#options, assets),
        process.listening,
        verifyAssets(assets),
      ]);
      // Before the first row of its ledger: one that is removed unsent is missed by its number.
      await this.#options.sessions.begin(vm.record.id);
      vm.state = { ...vm.state, accelerator: choice.accelerator };
      vm.booting = this.#boot(vm, assets, choice, by);
      vm.booting.catch(ignore("callers that await it have the failure"));
    } catch (error) {
      process.kill();
      vm.state = {
        state: "Defunct",
        boot_stages: [],
        pid: 0,
        last_error: error instanceof Error ? error.message : String(error),
      };
      await writeState(vm.paths, await settle(vm.paths, vm.state)).catch(
        ignore("disk full; the service keeps the state in memory"),
      );
      throw error;
    }
  }

  /** Follows the reports of a VM's process until it ends. */
  async watch(vm: Vm): Promise<void> {
    const { onState, onNotice, onTurn, witnesses } = this.#options;
    const watch = vm.watch = Symbol("watch");
    try {
      using stream = await vm.process.open({ t: "Watch" });
      for (let reply = await stream.next(); reply !== null; reply = await stream.next()) {
        if (vm.watch !== watch) return;
        if (reply.t === "Info") onState(vm, reply.info);
        else if (reply.t === "Heads") witnesses.take(vm.record.id, reply.heads);
        else if (reply.t === "Turn") onTurn(vm, reply);
        else onNotice(vm, { type: reply.type, payload: reply.payload });
      }
    } catch (error) {
      // One of another version runs on, unseen until it is stopped.
      if (isForeign(error)) return;
      // The process went away: the state on disk has the reason.
    }
    if (vm.watch !== watch) return;
    if (isAlive(vm.state)) onState(vm, await settle(vm.paths, vm.state));
    await witnesses.ended(vm.record.id);
  }

  get spareRamMb(): number | undefined {
    return this.#spare.ramMb;
  }

  get spareAssets(): string[] {
    return this.#spare.assets;
  }

  async close(): Promise<void> {
    await this.#spare.close();
  }

  async #boot(
    vm: Vm,
    assets: Assets,
    { accelerator }: AcceleratorChoice,
    by: "resume" | "fork",
  ): Promise<void> {
    const { templates } = this.#options;
    this.watch(vm);
    const { cpus, ram_mb, scratch_gb, parent } = vm.record;
    const machine = { cpus, ram_mb, accelerator, assets };
    const start = await isSuspended(vm.paths)
      ? { from: "suspended" as const, by, why: vm.waking?.why }
      : vm.record.assets.before !== undefined
      ? { from: "kernel" as const, why: "its image was changed" }
      : isGrowing(vm)
      ? { from: "kernel" as const, why: "its disk was enlarged" }
      : await templates.startOf(machine);
    // The machine boots while a program of the host gets a secret.
    const provided = this.#options.secrets.provide(vm);
    const { info } = await vm.process.call({ t: "Boot", accelerator, start })
      .finally(() => this.#spare.renew(parent ? undefined : { ...machine, scratch_gb }));
    await provided;
    this.#options.onState(vm, info);
    recordStep(this.#options.home, "vm");
    if (vm.record.agent !== undefined) recordStep(this.#options.home, "agent");
    if (start.from !== "suspended") {
      templates.started(machine, start, info).catch((error) => log.warn(error));
    }
  }
}

function isGrowing({ record, paths }: Vm): boolean {
  return record.scratch_gb > 0 && isEnlarged(paths.scratch);
}

/** Longest wait for a new sbx-process to listen, and between two looks, in `ms`. */
const LISTEN_DEADLINE_MS = timeLimit(20_000);
const LISTEN_POLL_MS = 5;

/** An sbx-process that was just started. */
interface SpawnedProcess {
  /** resolves when it listens on the VM's socket; rejects with `vm.boot_failed` if it never does */
  listening: Promise<void>;
  kill(): void;
}

/** Gives a VM its sbx-process, which outlives this one: the spare one, or else a new one. */
async function spawnProcess(home: Home, vm: Vm, spare: SpareProcess): Promise<SpawnedProcess> {
  await Deno.mkdir(`${home.runDir}/instances`, { recursive: true, mode: 0o700 });
  const waiting = await spare.take(vm.record.id);
  if (!waiting) return startProcess(vm);
  let process = untilItListens(waiting, vm);
  // Killed while it waited, perhaps for want of memory.
  const listening = process.listening.catch(() => (process = startProcess(vm)).listening);
  return { listening, kill: () => process.kill() };
}

function startProcess(vm: Vm): SpawnedProcess {
  return untilItListens(spawnDetached("process", [vm.record.id], logOf(vm)), vm);
}

function untilItListens(process: Detached, vm: Vm): SpawnedProcess {
  return { listening: untilListening(process, vm.paths.socket, logOf(vm)), kill: process.kill };
}

function logOf({ paths }: Vm): string {
  return `${paths.logs}/process.log`;
}

/**
 * Waits until a process accepts connections. Its socket alone says less: it exists a
 * moment before anyone listens on it.
 */
export async function untilListening(
  { exited }: Pick<Detached, "exited">,
  socket: string,
  log: string,
): Promise<void> {
  let hasExited = false;
  exited.then(() => hasExited = true);
  const deadline = performance.now() + LISTEN_DEADLINE_MS;
  while (performance.now() < deadline && !hasExited) {
    const answer = await Deno.connect({ transport: "unix", path: socket }).catch(() => undefined);
    if (answer) return answer.close();
    await new Promise((resolve) => setTimeout(resolve, LISTEN_POLL_MS));
  }
  throw new SbxError("vm.boot_failed", "the VM's process did not start", {
    hint: `${log} has the reason`,
  });
}
