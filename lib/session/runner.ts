import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { checkBootConfig, type ExecStreams, GuestLink, PORTS, type Terminal } from "../guest/mod.ts";
import { log } from "../base/log/mod.ts";
import { MCP_FRAME_LIMIT } from "../mcp/endpoint/limit.ts";
import type { ExecCall, MachineInfo } from "../ipc/mod.ts";
import { CONNECTIONS_MAX } from "../net/limit.ts";
import type { Accelerator, Hypervisor, Machine } from "../vm/mod.ts";
import { ConsoleLog } from "./console.ts";
import { type SessionPaths, sessionPaths } from "./files/paths.ts";
import type { SessionNotice } from "./gate.ts";
import type { Governor } from "./governor.ts";
import { type VmRecord, writeState } from "./files/record.ts";
import { Standstill } from "./standstill.ts";

/** Longest boot; `SBX_BOOT_DEADLINE_SECS` names another for slow machines and for tests. */
const BOOT_DEADLINE_SECS = 90;
/** How long a guest may take to write everything out when it is stopped. */
const STOP_DEADLINE_MS = 15_000;
/** Exit code of a program that may not run (contracts.md §2). */
const NOT_PERMITTED = 126;
const LOGIN_SHELL = ["/bin/bash", "--login"];

/** How a program ended. */
export interface ExecOutcome {
  exit_code: number;
  truncated: boolean;
  duration_ms: number;
  event_id: string;
}

/** One life of one VM: the machine, the link to its guest, and the record of what happens in it. */
export class Runner {
  readonly record: VmRecord;
  /** settles when the machine is gone and everything of it is written and removed */
  readonly ended: Promise<void>;
  #paths: SessionPaths;
  #hypervisor: Hypervisor;
  #governor: Promise<Governor>;
  #link: GuestLink;
  #machine: Machine | undefined;
  #info: MachineInfo = { state: "Booting", boot_stages: [], pid: Deno.pid };
  #watchers = new Set<(what: SessionNotice | MachineInfo) => void>();
  #standstill: Standstill;
  /** writes of its state follow each other */
  #kept = Promise.resolve();
  #stopping = false;
  #end = Promise.withResolvers<void>();
  #stages: { name: string; ms: number }[] = [];
  #began = performance.now();

  constructor(record: VmRecord, home: Home, hypervisor: Hypervisor) {
    this.record = record;
    this.ended = this.#end.promise;
    const paths = this.#paths = sessionPaths(home, record.id);
    this.#hypervisor = hypervisor;
    this.#link = new GuestLink(paths.sockets);
    this.#standstill = new Standstill({
      name: record.name,
      disk: paths.scratch,
      state: () => this.#info.state,
      set: (change) => {
        this.#set(change);
        void this.#keepState();
      },
      pause: () => this.#pauseMachine(),
      resume: () => this.#resumeMachine(),
    });
    // Loaded and opened while the machine boots: database and rules take as long to load as the rest of this process.
    this.#governor = import("./governor.ts").then(({ Governor }) =>
      Governor.open({
        home,
        paths,
        record,
        tell: (notice) => this.#tell(notice),
        onUnrecorded: (error, pause) => this.#standstill.unrecorded(error, pause),
        onRecorded: () => this.#standstill.recorded(),
        onNetwork: (problem) => {
          if (problem !== this.#info.network_error) this.#set({ network_error: problem });
        },
      })
    );
    this.#governor.catch(() => {});
  }

  get info(): MachineInfo {
    return this.#info;
  }

  /** @returns a function that stops the watching */
  watch(onChange: (what: SessionNotice | MachineInfo) => void): () => void {
    this.#watchers.add(onChange);
    return () => this.#watchers.delete(onChange);
  }

  /** Boots the machine; a boot that fails leaves it Defunct with its logs kept. */
  async boot(accelerator: Accelerator): Promise<void> {
    this.#began = performance.now();
    this.#set({ accelerator });
    try {
      await this.#boot(accelerator);
    } catch (cause) {
      const error = asSbxError(cause, "the boot");
      await this.#finish("Defunct", error.message);
      throw error;
    }
  }

  async #boot(accelerator: Accelerator): Promise<void> {
    const { record } = this;
    checkBootConfig(record.env, record.files);
    this.#link.listen();
    this.#link.accept(PORTS.mcp, async (channel) => (await (await this.#governor).mcp()).serve(channel), {
      frameLimit: MCP_FRAME_LIMIT,
    });
    const network = async () => await (await this.#governor).network();
    this.#link.accept(PORTS.tcp, async (channel, conn) => (await network()).serveTcp(channel, conn), {
      most: CONNECTIONS_MAX,
    });
    this.#link.accept(PORTS.dns, async (channel) => {
      await (await (await this.#governor).awaitNetwork()).serveDns(channel);
    });
    const console = new ConsoleLog(`${this.#paths.logs}/console.log`);
    this.#machine = await this.#hypervisor.start({
      dir: this.#paths.sockets,
      cpus: record.cpus,
      ramMb: record.ram_mb,
      ...record.assets,
      scratch: record.scratch_gb > 0 ? this.#paths.scratch : undefined,
      workspace: this.#paths.workspace,
      accelerator,
      logs: this.#paths.logs,
      onConsole: (bytes) => console.write(bytes),
      onDiskFull: () => void this.#standstill.diskFull().catch((error) => log(error)),
    });
    const spawned = this.#stage("machine started");
    const exited = this.#machine.exited.then(({ code, signal }) => {
      throw new SbxError(
        "vm.boot_failed",
        `the machine ended before the guest was ready (${signal ?? `exit code ${code}`})`,
        {
          hint: `${this.#paths.logs}/console.log and qemu.log say more`,
        },
      );
    });
    exited.catch(() => {});
    const [stages] = await Promise.race([
      Promise.all([this.#link.boot(record.env, record.files), this.#governor]),
      exited,
      deadline(),
    ]);
    for (const { name, ms } of stages) this.#stages.push({ name: `guest ${name}`, ms: spawned + ms });
    this.#stage("ready");
    this.#set({ state: "Running", boot_stages: this.#stages });
    await this.#keepState();
    this.#superviseMachine(this.#machine);
    await this.#standstill.begin();
  }

  /**
   * Runs a program; the event is decided on and in the ledger's queue before the guest hears of it. One that policy
   * does not let run exits with 126 and a line on its standard error (contracts.md §5).
   */
  async exec(call: ExecCall, streams: ExecStreams, cancelled?: AbortSignal): Promise<ExecOutcome> {
    this.#require("Running", "exec");
    const governor = await this.#governor;
    const { t: _, ...asked } = call;
    const { verdict, program, refusal } = await governor.permit(asked, cancelled);
    const { event_id } = verdict.event.common;
    if (!verdict.allowed) {
      await streams.output("stderr", encodeLine(`sbx: ${refusal}; sbx why ${event_id} shows the record`));
      return { exit_code: NOT_PERMITTED, truncated: false, duration_ms: 0, event_id };
    }
    const request = { ...asked, ...program };
    const exited = await this.#standstill.during(streams, this.#link.exec(request, streams, cancelled));
    governor.exited(request, exited.exit_code);
    if (exited.error) {
      await streams.output("stderr", encodeLine(`sbx: cannot run ${request.argv[0]}: ${exited.error}`));
    }
    return {
      exit_code: exited.exit_code,
      truncated: exited.truncated,
      duration_ms: Math.round(exited.duration_ms),
      event_id,
    };
  }

  async terminal(size: { cols: number; rows: number }, argv?: string[]): Promise<Terminal> {
    this.#require("Running", "shell");
    if (!argv && this.#link.shell) return this.#link.shell;
    const asked = { argv: argv ?? LOGIN_SHELL };
    const { verdict, program, refusal } = await (await this.#governor).permit(asked);
    if (!verdict.allowed) {
      const hint = `sbx why ${verdict.event.common.event_id} shows the record`;
      throw new SbxError("policy.blocked", refusal, { hint });
    }
    return this.#link.terminal(size, argv || program.argv !== asked.argv ? program.argv : undefined);
  }

  /** What governs the guest, once it is there. */
  get governor(): Promise<Governor> {
    return this.#governor;
  }

  awaitFile(path: string, size: number): Promise<boolean> {
    this.#require("Running", "a file");
    return this.#link.awaitFile(path, size);
  }

  async pause(): Promise<void> {
    this.#require("Running", "pause");
    await this.#pauseMachine();
    this.#set({ state: "Paused" });
    await this.#keepState();
  }

  /** @throws {SbxError} `vm.paused` while it stands still by itself */
  async resume(): Promise<void> {
    this.#require("Paused", "resume");
    this.#standstill.refuse();
    await this.#resumeMachine();
    this.#set({ state: "Running" });
    await this.#keepState();
  }

  /** Ends the machine: by its guest, which writes everything out first, or at once. */
  async stop(force: boolean): Promise<void> {
    this.#stopping = true;
    if (!force && this.#info.state === "Running") {
      const written = await this.#link.shutDown().then(() => true, () => false);
      if (written) {
        await Promise.race([
          this.ended,
          new Promise((resolve) => setTimeout(resolve, STOP_DEADLINE_MS)),
        ]);
      }
    }
    if (this.#machine) await this.#machine.kill();
    else await this.#finish("Stopped");
    await this.ended;
  }

  async #superviseMachine(machine: Machine): Promise<void> {
    const lost = this.#link.lost.catch((error) => error as SbxError);
    const exit = await Promise.race([machine.exited, lost]);
    if (exit instanceof SbxError) {
      // The agent's connection ends a moment before the machine that powers off: that is no failure.
      const powered = await Promise.race([
        machine.exited,
        new Promise<null>((resolve) => setTimeout(() => resolve(null), 2000)),
      ]);
      await machine.kill();
      if (!powered && !this.#stopping) return this.#finish("Defunct", exit.message);
    }
    const { code, signal } = await machine.exited;
    if (this.#stopping || (code === 0 && !signal)) return this.#finish("Stopped");
    await this.#finish("Defunct", `the machine ended unexpectedly (${signal ?? `exit code ${code}`})`);
  }

  async #finish(state: "Stopped" | "Defunct", last_error?: string): Promise<void> {
    if (this.#info.state === "Stopped" || this.#info.state === "Defunct") return;
    this.#set({ state, last_error });
    this.#link.close();
    await this.#machine?.kill();
    await (await this.#governor.catch(() => undefined))?.close();
    await this.#keepState();
    await Deno.remove(this.#paths.sockets, { recursive: true }).catch(() => {});
    this.#end.resolve();
  }

  #set(change: Partial<MachineInfo>): void {
    this.#info = { ...this.#info, ...change };
    for (const watcher of this.#watchers) watcher(this.#info);
  }

  #tell(notice: SessionNotice): void {
    for (const watcher of this.#watchers) watcher(notice);
  }

  async #pauseMachine(): Promise<void> {
    await this.#link.hold();
    await this.#machine!.pause().catch((error) => {
      this.#link.release();
      throw error;
    });
  }

  async #resumeMachine(): Promise<void> {
    await this.#machine!.resume();
    this.#link.release();
  }

  /** For the service to find when this process is gone. A disk without room for it holds up nothing. */
  #keepState(): Promise<void> {
    return this.#kept = this.#kept.then(() => writeState(this.#paths, this.#info)).catch((error) =>
      log(asSbxError(error, `writing ${this.#paths.state}`).message)
    );
  }

  #stage(name: string): number {
    const ms = performance.now() - this.#began;
    this.#stages.push({ name, ms });
    return ms;
  }

  #require(state: MachineInfo["state"], action: string): void {
    if (this.#info.state === state) return;
    this.#standstill.refuse();
    throw new SbxError(
      "vm.wrong_state",
      `${action} needs a VM that is ${state}; "${this.record.name}" is ${this.#info.state}`,
    );
  }
}

function deadline(): Promise<never> {
  const seconds = Number(Deno.env.get("SBX_BOOT_DEADLINE_SECS")) || BOOT_DEADLINE_SECS;
  return new Promise((_, reject) => {
    const timer = setTimeout(() => {
      reject(
        new SbxError("vm.boot_timeout", `the guest was not ready after ${seconds} seconds`, {
          hint: "sbx logs shows its console; SBX_BOOT_DEADLINE_SECS gives it longer",
        }),
      );
    }, seconds * 1000);
    Deno.unrefTimer(timer as unknown as number);
  });
}

function encodeLine(line: string): string {
  return new TextEncoder().encode(line + "\n").toBase64();
}
