/** The session of sbx-process: joins the machine, the guest, the gate, programs and ports of one VM. */
import { asSbxError, ignore, SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundDelay, timeLimit } from "../base/time/mod.ts";
import {
  checkBootConfig,
  type ExecResult,
  type ExecStreams,
  FILE_PROGRAM,
  GuestLink,
  PORT_PROGRAM,
  PORTS,
  type Terminal,
} from "../machine/guest/mod.ts";
import type { BootCall, GuestFileCall, MachineInfo } from "./ipc/mod.ts";
import type { Accelerator, Hypervisor, Machine, MachineExit, MachineSpec } from "../machine/vm/mod.ts";
import { GuestClock } from "./clock.ts";
import { Absence, type PresentGuest } from "./guest_absence.ts";
import type { Enforcement } from "./enforcement.ts";
import type {
  ExecOutcome,
  ProgramCall,
  ProgramDefaults,
  ProgramStreams,
  TerminalRequest,
  TerminalSize,
} from "./exec.ts";
import { type SessionPaths, sessionPaths, vmPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import { FolderChanges } from "../machine/live/mod.ts";
import { GUEST_WORKSPACE } from "../event/mod.ts";
import { liveStart } from "./file_event.ts";
import { DiskReserve, SessionHealth } from "./health.ts";
import { Idleness } from "./idleness.ts";
import { deathOf, limitMachine, specOf } from "./machine.ts";
import { Orders } from "./orders.ts";
import { type Report, SessionReport } from "./report.ts";
import type { Responder } from "./response.ts";
import { newlyFailed } from "./services/mod.ts";
import type { SpareMachine } from "./spare.ts";
import { Stages, startMachine } from "./start.ts";
import { discard, isSuspended, originOf, requireRoom, type VmCopy } from "./suspend.ts";
import {
  ACTIVITY_FRAME_LIMIT,
  DNS_FRAME_LIMIT,
  MCP_FRAME_LIMIT,
  MCP_RESULT_FRAME_LIMIT,
  TCP_FRAME_LIMIT,
  TCP_STREAMS_MAX,
} from "../machine/guest/wire/mod.ts";
import { type ChainHeads, startThreadAhead } from "../ledger/mod.ts";

/** Longest time in `ms` for a guest to write everything out when it is stopped. */
const STOP_DEADLINE_MS = timeLimit(15_000);
/** Longest wait for the answer of a guest whose machine stood still for lack of space, in `ms`. */
const ANSWER_MS = timeLimit(60_000);

/** Time in `ms` for which a connection that tests a port stays open, unless the program there closes it. */
const LISTEN_MS = 300;

/** Interval in `ms` at which a guest that is to be woken is checked for still standing still. */
const PAUSED_LOOK_MS = 500;

/** One life of one VM: the machine, the link to its guest, and the enforcement of its contract. */
export class Session {
  readonly record: VmRecord;
  /** settles when the machine is gone, its record complete and its sockets removed */
  readonly ended: Promise<void>;
  /**
   * loaded and opened while the machine boots: database and rules take as long to
   * load as the rest of this process
   */
  readonly enforcement: Promise<Enforcement>;
  #paths: SessionPaths;
  #hypervisor: Hypervisor;
  readonly #spare: SpareMachine | undefined;
  /** made when the machine starts */
  #link!: GuestLink;
  #clock!: GuestClock;
  #machine: Machine | undefined;
  #spec: MachineSpec | undefined;
  readonly #report: SessionReport;
  #health: SessionHealth;
  readonly #idleness = new Idleness();
  readonly #orders = new Orders();
  /** absent until the enforcement is there */
  #responder: Responder | undefined;
  #stopping = false;
  readonly #absence: Absence;
  #end = Promise.withResolvers<void>();

  /** @param spare a machine that was started ahead */
  constructor(record: VmRecord, home: Home, hypervisor: Hypervisor, spare?: SpareMachine) {
    this.record = record;
    this.#spare = spare;
    this.ended = this.#end.promise;
    const paths = this.#paths = sessionPaths(home, record.id);
    this.#hypervisor = hypervisor;
    const report = this.#report = new SessionReport(paths);
    this.#health = new SessionHealth({
      name: record.name,
      disk: paths.scratch,
      report,
      absence: () => this.#absence,
      pause: () => this.#pauseMachine(),
      resume: () => this.#resumeMachine(),
      isHeld: () => this.#responder?.isStill ?? false,
      requireAnswer: () => this.#link.requireAnswer(ANSWER_MS, unreachable),
      reserve: new DiskReserve(paths.reserve),
    });
    this.enforcement = import("./enforcement.ts").then(({ Enforcement }) =>
      Enforcement.open({
        home,
        paths,
        record,
        report,
        onUnrecorded: (error, pause) => this.#health.ledgerFailed(error, pause),
        onRecorded: () => this.#health.ledgerRecovered(),
        onLifetime: () => this.stop(false).catch((error) => log.error(error)),
        machine: { pause: () => this.#pauseHeld(), suspend: () => this.#suspendHeld() },
      })
    );
    this.enforcement.then(
      ({ responder }) => this.#responder = responder,
      ignore("callers that await it have the failure"),
    );
    this.#absence = new Absence({
      openLink: () => this.#openLink(),
      enforcement: this.enforcement,
      isPaused: () => report.info.state === "Paused",
      onLost: ({ message }) => this.#finish("Defunct", message),
    });
  }

  get info(): MachineInfo {
    return this.#report.info;
  }

  /** Newest heads of the rows in its ledger; absent until that is open. */
  get heads(): ChainHeads | undefined {
    return this.#report.heads;
  }

  /** As {@linkcode SessionReport.watchHeads}. */
  watchHeads(onChange: () => void): () => void {
    return this.#report.watchHeads(onChange);
  }

  /** @returns a function that stops the watching */
  watch(onChange: (what: Report) => void): () => void {
    return this.#report.watch(onChange);
  }

  /** Boots the machine; a boot that fails leaves it Defunct with its logs kept. */
  async boot({ accelerator, start }: Pick<BootCall, "accelerator" | "start">): Promise<void> {
    this.#report.set({ accelerator });
    try {
      await this.#boot(accelerator, start);
    } catch (cause) {
      const error = asSbxError(cause, "booting the VM");
      await this.#machine?.kill();
      // Memory that could not be taken up again is still there for another try, unless its
      // guest has written to its disk.
      const isKept = await isSuspended(this.#paths);
      if (!isKept) await discard(this.#paths);
      await this.#finish(isKept ? "Suspended" : "Defunct", error.message);
      throw error;
    }
  }

  async #boot(accelerator: Accelerator, start: BootCall["start"]): Promise<void> {
    checkBootConfig(this.record.env, this.record.files);
    // Memory of another state of its disk, left by a process that was killed.
    if (start.from !== "suspended") await discard(this.#paths);
    const stages = new Stages();
    const onDiskFull = () => void this.#health.diskFull().catch((error) => log.warn(error));
    // Before its guest can read the folder: it keeps names and contents for minutes.
    const changes = this.#watchFolder();
    const spare = await this.#spare?.takeFor(this.record, { accelerator, start }, onDiskFull);
    const started = startMachine({
      hypervisor: this.#hypervisor,
      record: this.record,
      spec: this.#spec = spare?.spec ??
        specOf(this.record, this.#paths, accelerator, onDiskFull, changes?.isComplete),
      paths: this.#paths,
      enforcement: this.enforcement,
      spare,
      openLink: (made) => this.#openLink(made),
      onMachine: (machine) => this.#machine = machine,
      onStarted: (started) => this.#report.set({ started }),
      stage: (name) => stages.note(name),
      isOver: () => this.#stopping || this.info.state !== "Booting",
    }, start);
    const [guestStages, enforcement] = await Promise.all([started, this.enforcement]);
    enforcement.statements.boot(this.info);
    await limitMachine(this.#machine!, this.record, enforcement.statements);
    const { live } = this.record;
    if (live) {
      enforcement.observeFile(liveStart(live));
      changes?.tell((action, paths) => this.#tellOfChanges(action, paths));
    }
    stages.all.push(...guestStages);
    stages.note("ready");
    await this.#report.keep({ state: "Running", boot_stages: stages.all });
    endOf(this.#machine!, () => this.#link, () => this.#stopping, `${this.#spec.logs}/console.log`)
      .then(({ state, last_error }) => this.#finish(state, last_error));
    this.#health.takeReserve();
    await this.#health.pauseIfNeeded();
    await enforcement.responder.started();
  }

  /**
   * Watches a shared folder for the guest, as long as the VM runs.
   * @returns undefined without one, or where it cannot be watched
   */
  #watchFolder(): FolderChanges | undefined {
    const { live } = this.record;
    if (!live) return;
    const { dir, name, top } = live;
    try {
      const changes = new FolderChanges({ dir, name, top, workspace: this.#paths.workspace });
      this.ended.finally(() => changes.close());
      return changes;
    } catch (error) {
      log.warn(`programs in the VM that watch ${dir} do not see changes of the host:`, error);
    }
  }

  async #tellOfChanges(action: "wake" | "look", paths: string[]): Promise<void> {
    while (this.info.state === "Paused") await backgroundDelay(PAUSED_LOOK_MS);
    const link = await this.#guest("a watcher");
    const places = paths.map((path) => `${GUEST_WORKSPACE}/${path}`);
    const argv = [FILE_PROGRAM, action, ...paths.length > 0 ? places : [GUEST_WORKSPACE]];
    const { exit_code } = await link.exec({ argv, limit: 0, stdin: false }, NO_STREAMS);
    if (exit_code !== 0) throw new SbxError("guest.failed", "the guest's image is of an earlier sbx");
  }

  /** Runs a program in the guest. @throws {SbxError} `vm.wrong_state`, and as {@linkcode execProgram} */
  async exec(call: ProgramCall, streams: ProgramStreams, signal?: AbortSignal): Promise<ExecOutcome> {
    const link = () => this.#guest("exec");
    await link();
    const enforcement = await this.enforcement;
    const { gate, activity } = enforcement;
    // Loaded like the enforcement: policy would delay the start of this process.
    const { execProgram } = await import("./exec.ts");
    return await execProgram(
      {
        gate,
        activity,
        link,
        health: this.#health,
        limits: this.record.limits,
        defaults: this.#programDefaults,
        env: await enforcement.freshEnv(),
      },
      call,
      streams,
      signal,
    );
  }

  /** Settles when its guest runs: true, or has ended or is being stopped: false. */
  async present(): Promise<boolean> {
    while (true) {
      await this.#absence.over;
      if (this.#stopping || this.#report.hasEnded) return false;
      if (this.info.state === "Running") return true;
      await new Promise<void>((resolve) => {
        const stop = this.watch(() => {
          stop();
          resolve();
        });
      });
    }
  }

  /** Tests whether a program of the guest listens on a port. It gets a connection, and no bytes. */
  async listens(port: number): Promise<boolean> {
    const link = await this.#guest("a service");
    const call = { argv: [PORT_PROGRAM, `${port}`], limit: 0, stdin: true, timeout_ms: LISTEN_MS };
    return (await link.exec(call, NO_STREAMS)).error === undefined;
  }

  /** Reports the services that have failed, and states each new one. */
  async servicesFailed(failed: NonNullable<MachineInfo["failed_services"]>): Promise<void> {
    const before = this.info.failed_services ?? [];
    this.#report.set({ failed_services: failed.length > 0 ? failed : undefined });
    const { statements } = await this.enforcement;
    for (const { name, reason } of newlyFailed(before, failed)) statements.serviceFailed(name, reason);
  }

  /** @param own program in a terminal of its own; absent: the login shell, in the VM's one shared terminal */
  async terminal(size: TerminalSize, own?: TerminalRequest, trace_id?: string): Promise<Terminal> {
    const { shell } = await this.#guest("shell");
    if (!own && shell) return shell;
    const enforcement = await this.enforcement;
    const { gate, activity } = enforcement;
    const { openTerminal } = await import("./exec.ts");
    return await openTerminal(
      {
        gate,
        activity,
        link: this.#link,
        limits: this.record.limits,
        defaults: this.#programDefaults,
        env: await enforcement.freshEnv(),
      },
      size,
      own,
      trace_id,
    );
  }

  get #programDefaults(): ProgramDefaults {
    const { environment, devcontainer } = this.record;
    if (!environment) return {};
    return {
      cwd: devcontainer?.folder ?? environment.workdir,
      user: devcontainer?.user ?? environment.user,
      keepsPath: true,
    };
  }

  /**
   * Has the agent act on a file of its guest. The rules were asked.
   * @throws {SbxError} `vm.wrong_state`, `guest.failed`
   */
  async guestFile(
    { words, limit, stdin }: GuestFileCall,
    streams: ExecStreams,
    signal?: AbortSignal,
  ): Promise<ExecResult> {
    const link = await this.#guest("a file");
    return await link.exec({ argv: [FILE_PROGRAM, ...words], limit, stdin }, streams, signal);
  }

  async awaitFile(path: string, size: number): Promise<boolean> {
    return await (await this.#guest("a file")).awaitFile(path, size);
  }

  async pause(): Promise<void> {
    await this.#orders.next(() => this.#pause());
  }

  async #pause(): Promise<void> {
    this.#require("Running", "pause");
    await this.#pauseMachine();
    await this.#report.keep({ state: "Paused" });
  }

  /**
   * Resumes the machine, also one whose ledger finds no space, while there is room kept for it.
   *
   * @throws {SbxError} `vm.paused` while the machine is paused by another problem; `vm.held`
   */
  async resume(): Promise<void> {
    await this.#orders.next(() => this.#resume());
  }

  async #resume(): Promise<void> {
    this.#require("Paused", "resume");
    (await this.enforcement).responder.requireMoving();
    if (await this.#health.useReserve()) return;
    this.#health.requireHealthy();
    await this.#resumeMachine();
    await this.#report.keep({ state: "Running" });
  }

  /**
   * Writes the machine to disk and ends it; its programs continue at the next start. A machine that cannot be
   * written resumes at once; programs started from the host continue without their clients either way.
   *
   * @param idleMs only if it has been unused for that long
   * @throws {SbxError} `vm.suspend_failed`; `vm.busy`: it is in use again
   */
  async suspend(idleMs?: number): Promise<void> {
    await this.#orders.next(() => this.#suspend(idleMs));
  }

  async #suspend(idleMs?: number): Promise<void> {
    this.#require("Running", "suspend");
    await requireRoom(this.#machine!, this.#paths);
    if (idleMs !== undefined && await this.idleMs() < idleMs) {
      throw new SbxError("vm.busy", `"${this.record.name}" is in use again`);
    }
    await this.#absence.suspend(this.#present(), async () => {
      this.#report.note({ suspended_by: idleMs === undefined ? "person" : "idle" });
      await this.#finish("Suspended");
    });
  }

  /** Stands still after a finding, also where it was paused already. */
  async #pauseHeld(): Promise<void> {
    await this.#orders.next(async () => {
      if (!this.#report.hasEnded && this.info.state !== "Paused") await this.#pause();
      this.#health.keepPaused(this.#responder?.refusal?.message ?? "a finding holds it back");
    });
  }

  async #suspendHeld(): Promise<void> {
    const lack = this.#hypervisor.lackOf("save_state");
    if (lack) throw new SbxError("vm.not_supported", `this host cannot suspend VMs: it ${lack}`);
    if (this.record.live) throw new SbxError("vm.not_supported", "it has a folder of this host");
    await this.suspend();
  }

  /** Time for which it has been unused, in `ms`. */
  async idleMs(): Promise<number> {
    const { gate } = await this.enforcement;
    this.#require("Running", "idleness");
    return await this.#idleness.look({ link: this.#link, gate, machine: this.#machine! });
  }

  /**
   * Copies the VM, with its memory, into an empty folder. The VM is paused meanwhile; its guest's connections
   * are reset, and programs started from the host continue without their clients.
   *
   * @throws {SbxError} `vm.fork_failed`; `vm.held`: a finding holds it back, or did
   * so before the copy was complete
   */
  async fork(dir: string): Promise<VmCopy> {
    return await this.#orders.next(async () => {
      this.#require("Running", "fork");
      const { responder } = await this.enforcement;
      responder.requireFree();
      const copy = await this.#absence.fork(this.#present(), vmPaths(dir));
      responder.requireFree();
      return copy;
    });
  }

  #present(): PresentGuest {
    return {
      record: this.record,
      paths: this.#paths,
      spec: this.#spec!,
      machine: this.#machine!,
      link: this.#link,
      origin: () => originOf(this.#hypervisor, this.#spec!),
    };
  }

  /** Stops the machine; unless `force`, its guest writes everything out first. */
  async stop(force: boolean): Promise<void> {
    this.#stopping = true;
    if (!force && this.info.state === "Running") {
      const written = await this.#link.shutDown().then(() => true, () => false);
      if (written) {
        await Promise.race([
          this.ended,
          new Promise((resolve) => setTimeout(resolve, STOP_DEADLINE_MS)),
        ]);
      }
    }
    if (this.#machine) await this.#machine.kill();
    // Without an order to start, it keeps its memory.
    else await this.#finish(await isSuspended(this.#paths) ? "Suspended" : "Stopped");
    await this.ended;
  }

  /** A link for the guest to connect to; closes the previous one. @param made one that listens already */
  async #openLink(made?: GuestLink): Promise<GuestLink> {
    const before = this.#link;
    // Replaced first: the end of a link that is in use is the loss of the guest.
    const link = this.#link = made ?? new GuestLink(this.#paths.sockets);
    await before?.close();
    if (!made) link.listen();
    const clock = this.#clock = new GuestClock(link, {
      isPaused: () => this.#report.info.state === "Paused",
      onWake: (sleptMs) => this.enforcement.then((enforcement) => enforcement.woke(sleptMs), () => {}),
    });
    serveGuest(link, this.enforcement, () => clock.corrected());
    clock.follow();
    return link;
  }

  async #finish(state: "Suspended" | "Stopped" | "Defunct", last_error?: string): Promise<void> {
    if (this.#report.hasEnded) return;
    this.#report.note({ state, last_error });
    this.#link?.close();
    await this.#machine?.kill();
    await this.#health.end();
    await (await this.enforcement.catch(() => undefined))?.close();
    await this.#report.write();
    await Deno.remove(this.#paths.sockets, { recursive: true }).catch(
      ignore("the service removes them, or the next process replaces them"),
    );
    // Reported last: from then on the VM may have another process, with sockets of these names.
    this.#report.tell(this.#report.info);
    this.#end.resolve();
  }

  async #pauseMachine(): Promise<void> {
    await this.#absence.over;
    await this.#link.hold();
    await this.#machine!.pause().catch((error) => {
      this.#link.release();
      throw error;
    });
  }

  async #resumeMachine(): Promise<void> {
    await this.#machine!.resume();
    this.#link.release();
    await this.#clock.resumed();
  }

  /** The guest, once it is there. @throws {SbxError} `vm.wrong_state` */
  async #guest(action: string): Promise<GuestLink> {
    await this.#health.present();
    this.#require("Running", action);
    await this.#clock.corrected();
    return this.#link;
  }

  #require(state: MachineInfo["state"], action: string): void {
    if (this.info.state === state) return;
    this.#health.requireHealthy();
    throw new SbxError(
      "vm.wrong_state",
      `${action} needs a VM that is ${state}; "${this.record.name}" is ${this.info.state}`,
    );
  }
}

/** Listens for a guest's connections for MCP, TCP, DNS and activity. No other link listens in its folder. */
function serveGuest(link: GuestLink, enforcement: Promise<Enforcement>, ready: () => Promise<void>): void {
  link.accept(PORTS.mcp, async (channel) => (await (await enforcement).mcp()).serve(channel), {
    frameLimit: MCP_FRAME_LIMIT,
    sendLimit: MCP_RESULT_FRAME_LIMIT,
  });
  link.accept(
    PORTS.tcp,
    async (channel, conn) => {
      const network = await (await enforcement).network.open();
      await ready();
      await network.serveTcp(channel, conn);
    },
    { maxConnections: TCP_STREAMS_MAX, frameLimit: TCP_FRAME_LIMIT },
  );
  link.accept(PORTS.activity, async (channel) => (await enforcement).activity.serve(channel), {
    frameLimit: ACTIVITY_FRAME_LIMIT,
  });
  enforcement.then(({ activity }) => activity.follow(link), () => {});
  link.accept(PORTS.dns, async (channel) => {
    await (await (await enforcement).network.retry()).serveDns(channel, ready);
  }, { frameLimit: DNS_FRAME_LIMIT, firstFrameLimit: DNS_FRAME_LIMIT });
}

/** Streams of a program without input, whose output is of no interest. */
const NO_STREAMS: ExecStreams = { output: () => Promise.resolve(), input: () => Promise.resolve(null) };

function unreachable(): SbxError {
  return new SbxError(
    "guest.failed",
    "the guest does not answer since the host's disk was full: its machine stopped while it used its connections",
    { hint: "sbx start NAME boots it again; its disk and its workspace are kept" },
  );
}

/** Longest time in `ms` between the end of the agent's connection and of a machine that powers off. */
const POWER_OFF_MS = timeLimit(2000);

/** How a machine ended. */
interface End {
  state: "Stopped" | "Defunct";
  last_error?: string;
}

/**
 * Waits until a machine has ended, or its guest is lost: then it is killed.
 *
 * @param console path of its console's log
 */
export async function endOf(
  machine: Machine,
  currentLink: () => GuestLink,
  isStopping: () => boolean,
  console: string,
): Promise<End> {
  const lost = await lostBefore(machine, currentLink);
  if (lost) {
    // A machine that powers off loses the agent's connection a moment earlier: no failure.
    const poweredOff = await Promise.race([
      machine.exited,
      new Promise<null>((resolve) => setTimeout(() => resolve(null), POWER_OFF_MS)),
    ]);
    await machine.kill();
    if (!poweredOff && !isStopping()) {
      const death = await deathOf(console);
      return { state: "Defunct", last_error: death ? `${lost.message} (${death})` : lost.message };
    }
  }
  const { code, signal } = await machine.exited;
  if (isStopping()) return { state: "Stopped" };
  // A kernel that panicked restarts the machine, and init powers it off after the agent: both exit with 0.
  const death = await deathOf(console);
  if (death === undefined && code === 0 && !signal) return { state: "Stopped" };
  return {
    state: "Defunct",
    last_error: `the machine ended unexpectedly (${death ?? signal ?? `exit code ${code}`})`,
  };
}

/**
 * The loss of the guest, if it comes before the machine's end. A link that was
 * replaced is not the guest's loss.
 */
async function lostBefore(machine: Machine, currentLink: () => GuestLink): Promise<SbxError | undefined> {
  while (true) {
    const link = currentLink();
    const event: MachineExit | { lost: SbxError } = await Promise.race([
      machine.exited,
      link.lost.catch((lost) => ({ lost })),
    ]);
    if (!("lost" in event)) return undefined;
    if (link === currentLink()) return event.lost;
  }
}

/**
 * Loads the code of a session's enforcement and programs, and starts the thread of its
 * ledger, before there is a session.
 */
export async function loadAhead(): Promise<void> {
  startThreadAhead();
  await Promise.all([import("./enforcement.ts"), import("./exec.ts"), import("./network.ts")]);
}
