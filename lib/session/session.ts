import { asSbxError, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import type { SessionNotice } from "../gate/mod.ts";
import { checkBootConfig, type ExecStreams, GuestLink, PORTS, type Terminal } from "../guest/mod.ts";
import { DNS_FRAME_LIMIT, MCP_FRAME_LIMIT, TCP_FRAME_LIMIT, TCP_STREAMS_MAX } from "../guest/wire/mod.ts";
import type { BootCall, ExecCall, MachineInfo } from "../ipc/mod.ts";
import type { Accelerator, Hypervisor, Machine, MachineSpec } from "../vm/mod.ts";
import type { Enforcement } from "./enforcement.ts";
import type { ExecOutcome } from "./exec.ts";
import { type SessionPaths, sessionPaths } from "./files/paths.ts";
import { type VmRecord, writeState } from "./files/record.ts";
import { SessionHealth } from "./health.ts";
import { DiskReserve } from "./reserve.ts";
import { endOf } from "./end.ts";
import { specOf } from "./machine_spec.ts";
import { meetGuest, type Stage, startMachine } from "./start.ts";
import { isSuspended, writeDown } from "./suspend.ts";

/** Longest time in `ms` for a guest to write everything out when it is stopped. */
const STOP_DEADLINE_MS = 15_000;

/** One life of one VM: the machine, the link to its guest, and the enforcement of its contract. */
export class Session {
  readonly record: VmRecord;
  /** settles when the machine is gone, its record complete and its sockets removed */
  readonly ended: Promise<void>;
  /** loaded and opened while the machine boots: database and rules take as long to load as the rest of this process */
  readonly enforcement: Promise<Enforcement>;
  #paths: SessionPaths;
  #hypervisor: Hypervisor;
  /** made when the machine starts */
  #link!: GuestLink;
  #machine: Machine | undefined;
  #spec: MachineSpec | undefined;
  #info: MachineInfo = { state: "Booting", boot_stages: [], pid: Deno.pid };
  #watchers = new Set<(what: SessionNotice | MachineInfo) => void>();
  #health: SessionHealth;
  /** the last write of the state; the next one waits for it */
  #stateWritten = Promise.resolve();
  #stopping = false;
  #end = Promise.withResolvers<void>();
  #stages: Stage[] = [];
  #began = performance.now();

  constructor(record: VmRecord, home: Home, hypervisor: Hypervisor) {
    this.record = record;
    this.ended = this.#end.promise;
    const paths = this.#paths = sessionPaths(home, record.id);
    this.#hypervisor = hypervisor;
    this.#health = new SessionHealth({
      name: record.name,
      disk: paths.scratch,
      state: () => this.#info.state,
      set: (change) => {
        this.#set(change);
        void this.#writeState();
      },
      pause: () => this.#pauseMachine(),
      resume: () => this.#resumeMachine(),
      reserve: new DiskReserve(paths.reserve),
    });
    this.enforcement = import("./enforcement.ts").then(({ Enforcement }) =>
      Enforcement.open({
        home,
        paths,
        record,
        tell: (notice) => this.#tell(notice),
        onUnrecorded: (error, pause) => this.#health.ledgerFailed(error, pause),
        onRecorded: () => this.#health.ledgerRecovered(),
        onNetwork: (problem) => {
          if (problem !== this.#info.network_error) this.#set({ network_error: problem });
        },
        onMcpNeeds: (mcp_needs) => this.#set({ mcp_needs }),
      })
    );
    this.enforcement.catch(() => {});
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
  async boot({ accelerator, start }: Pick<BootCall, "accelerator" | "start">): Promise<void> {
    this.#began = performance.now();
    this.#set({ accelerator });
    try {
      await this.#boot(accelerator, start);
    } catch (cause) {
      const error = asSbxError(cause, "booting the VM");
      // Memory that could not be taken up again is still there for another try.
      await this.#finish(await isSuspended(this.#paths) ? "Suspended" : "Defunct", error.message);
      throw error;
    }
  }

  async #boot(accelerator: Accelerator, start: BootCall["start"]): Promise<void> {
    checkBootConfig(this.record.env, this.record.files);
    const started = startMachine({
      hypervisor: this.#hypervisor,
      record: this.record,
      spec: this.#spec = specOf(this.record, this.#paths, accelerator, () => {
        this.#health.diskFull().catch((error) => log.warn(error));
      }),
      paths: this.#paths,
      openLink: () => this.#openLink(),
      onMachine: (machine) => this.#machine = machine,
      onStarted: (started) => this.#set({ started }),
      stage: (name) => this.#stage(name),
      isOver: () => this.#stopping || this.#info.state !== "Booting",
    }, start);
    const [stages] = await Promise.all([started, this.enforcement]);
    this.#stages.push(...stages);
    this.#stage("ready");
    this.#set({ state: "Running", boot_stages: this.#stages });
    await this.#writeState();
    this.#superviseMachine(this.#machine!);
    this.#health.takeReserve();
    await this.#health.pauseIfNeeded();
  }

  /** Runs a program in the guest. @throws {SbxError} `vm.wrong_state`, and those of {@linkcode execProgram} */
  async exec(call: ExecCall, streams: ExecStreams, signal?: AbortSignal): Promise<ExecOutcome> {
    this.#require("Running", "exec");
    const { gate } = await this.enforcement;
    // Loaded like the enforcement: policy would delay the start of this process.
    const { execProgram } = await import("./exec.ts");
    return await execProgram({ gate, link: this.#link, health: this.#health }, call, streams, signal);
  }

  /** @param argv program in a terminal of its own; absent: the login shell, in the VM's one shared terminal */
  async terminal(size: { cols: number; rows: number }, argv?: string[]): Promise<Terminal> {
    this.#require("Running", "shell");
    if (!argv && this.#link.shell) return this.#link.shell;
    const { gate } = await this.enforcement;
    const { openTerminal } = await import("./exec.ts");
    return await openTerminal({ gate, link: this.#link }, size, argv);
  }

  awaitFile(path: string, size: number): Promise<boolean> {
    this.#require("Running", "a file");
    return this.#link.awaitFile(path, size);
  }

  async pause(): Promise<void> {
    this.#require("Running", "pause");
    await this.#pauseMachine();
    this.#set({ state: "Paused" });
    await this.#writeState();
  }

  /**
   * Resumes the machine, also one whose ledger finds no space, while there is room kept for it.
   *
   * @throws {SbxError} `vm.paused` while the machine is paused by another problem
   */
  async resume(): Promise<void> {
    this.#require("Paused", "resume");
    if (await this.#health.useReserve()) return;
    this.#health.requireHealthy();
    await this.#resumeMachine();
    this.#set({ state: "Running" });
    await this.#writeState();
  }

  /**
   * Writes the machine to disk and ends it; its programs go on when it is started again. A machine that cannot be
   * written goes on at once; programs that the host ran in it go on without their clients either way.
   *
   * @throws {SbxError} `vm.suspend_failed`
   */
  async suspend(): Promise<void> {
    this.#require("Running", "suspend");
    const shell = this.#link.shellState;
    try {
      await writeDown(this.#machine!, this.#link, this.#paths);
    } catch (cause) {
      const link = await this.#openLink();
      if (shell) link.adoptShell(shell);
      await this.#machine!.rejoin();
      await meetGuest({ record: this.record, spec: this.#spec! }, this.#machine!, link, () => 0);
      throw cause;
    }
    await this.#finish("Suspended");
  }

  /** Stops the machine; unless `force`, its guest writes everything out first. */
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

  /** Listens for the guest: its agent, and its connections for MCP, TCP and DNS. */
  async #openLink(): Promise<GuestLink> {
    const { enforcement } = this;
    await this.#link?.close();
    this.#link = new GuestLink(this.#paths.sockets);
    this.#link.listen();
    this.#link.accept(PORTS.mcp, async (channel) => (await (await enforcement).mcp()).serve(channel), {
      frameLimit: MCP_FRAME_LIMIT,
    });
    this.#link.accept(
      PORTS.tcp,
      async (channel, conn) => (await (await enforcement).network.open()).serveTcp(channel, conn),
      { maxConnections: TCP_STREAMS_MAX, frameLimit: TCP_FRAME_LIMIT },
    );
    this.#link.accept(PORTS.dns, async (channel) => {
      await (await (await enforcement).network.retry()).serveDns(channel);
    }, { frameLimit: DNS_FRAME_LIMIT, firstFrameLimit: DNS_FRAME_LIMIT });
    return this.#link;
  }

  async #superviseMachine(machine: Machine): Promise<void> {
    const { state, last_error } = await endOf(machine, () => this.#link, () => this.#stopping);
    await this.#finish(state, last_error);
  }

  async #finish(state: "Suspended" | "Stopped" | "Defunct", last_error?: string): Promise<void> {
    if (hasEnded(this.#info)) return;
    this.#set({ state, last_error });
    this.#link?.close();
    await this.#machine?.kill();
    await this.#health.end();
    await (await this.enforcement.catch(() => undefined))?.close();
    await this.#writeState();
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

  /** Writes the state for the service to find once this process is gone. A full disk delays nothing. */
  #writeState(): Promise<void> {
    return this.#stateWritten = this.#stateWritten.then(() => writeState(this.#paths, this.#info)).catch((
      error,
    ) => log.warn(asSbxError(error, `writing ${this.#paths.state}`).message));
  }

  #stage(name: string): number {
    const ms = performance.now() - this.#began;
    this.#stages.push({ name, ms });
    return ms;
  }

  #require(state: MachineInfo["state"], action: string): void {
    if (this.#info.state === state) return;
    this.#health.requireHealthy();
    throw new SbxError(
      "vm.wrong_state",
      `${action} needs a VM that is ${state}; "${this.record.name}" is ${this.#info.state}`,
    );
  }
}

function hasEnded({ state }: MachineInfo): boolean {
  return state === "Suspended" || state === "Stopped" || state === "Defunct";
}
