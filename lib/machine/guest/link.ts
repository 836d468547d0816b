/**
 * Host end of the guest agent's control connection: boot, programs, files, clock and terminals
 * (docs/design/contracts/07-guest-wire.md §7).
 */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { backgroundTimeout, rejectAfter, timeLimit } from "../../base/time/mod.ts";
import type { FrameChannel } from "../../base/wire/mod.ts";
import {
  type ExecRequest,
  type ExecResult,
  type ExecStreams,
  GuestPorts,
  type KeptProgram,
  type PortLimits,
  Programs,
} from "./program.ts";
import { GuestMessage, TerminalAttach } from "./schema.ts";
import { type ShellState, Terminal, type TerminalProgram } from "./terminal.ts";
import { type BootFile, GUEST_VERSION, type GuestStage, type HostMessage, PORTS } from "./wire/mod.ts";

/**
 * Most terminals of a guest at once (docs/design/contracts/14-limits.md §14): half the connections of their
 * port.
 */
export const TERMINALS_MAX = 128;
/**
 * Longest wait for the guest's word on a file, in `ms` (docs/design/contracts/14-limits.md §14); the agent
 * gives up before.
 */
const FILE_DEADLINE_MS = timeLimit(5000);

/** Random `bytes` for the kernel of a guest. */
const SEED_BYTES = 64;

/** Configuration that a guest receives before any program runs in it. */
export interface GuestBoot {
  /** UUID of the session */
  id: string;
  /** of the VM, and of the guest as a host */
  name: string;
  env: Record<string, string>;
  files: BootFile[];
  /** abilities of the VM; its hypervisor's are ignored */
  abilities?: readonly string[];
}

/** Programs of a guest that outlive their link. */
export interface GuestState {
  shell?: ShellState;
  programs: KeptProgram[];
}

/** Host end of one guest: its control connection, programs and terminals. */
export class GuestLink {
  /** rejects when the guest breaks the protocol or ends; the guest is not trusted afterwards */
  readonly lost: Promise<never>;
  #lose: (error: unknown) => void;
  readonly #ports: GuestPorts;
  readonly #programs: Programs;
  #control: FrameChannel | undefined;
  #ready = Promise.withResolvers<string>();
  #booted = Promise.withResolvers<GuestStage[]>();
  #files = new Map<string, (visible: boolean) => void>();
  #clocks = new Map<string, (epochMs: number) => void>();
  #terminals = new Map<string, Terminal>();
  #shell: Terminal | undefined;
  /** programs that an earlier link left, by name */
  readonly #left = new Map<string, KeptProgram>();
  /** rejects when the guest is left for a while; it is trusted, and its programs continue */
  readonly #gone = Promise.withResolvers<never>();
  #isOver = false;
  #activityKey?: string;
  #isDetaching = false;

  /** @param dir folder of the machine's sockets */
  constructor(dir: string) {
    const { promise, reject } = Promise.withResolvers<never>();
    this.lost = promise;
    this.#lose = reject;
    const lost = Promise.race([promise, this.#gone.promise]);
    lost.catch(() => this.#isOver = true);
    for (const each of [promise, lost, this.#ready.promise, this.#booted.promise]) {
      each.catch(ignore("callers that await them have the failure"));
    }
    this.#ports = new GuestPorts(dir);
    this.#programs = new Programs({
      send: (message) => this.#send(message),
      lost,
      newId,
    });
  }

  /** Listens on the ports of the agent; to be called before the machine starts. */
  listen(): void {
    this.accept(PORTS.control, (channel) => this.#serveControl(channel));
    this.accept(PORTS.exec, (channel) => this.#programs.serve(channel));
    this.accept(PORTS.terminal, (channel, conn) => this.#serveTerminal(channel, conn));
  }

  /** Serves another port of the guest; to be called before the machine starts. */
  accept(
    port: number,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
    limits?: PortLimits,
  ): Promise<void> {
    return this.#ports.accept(port, serve, limits);
  }

  /** Waits for the guest's agent. @returns its version @throws {SbxError} the guest is lost */
  connected(): Promise<string> {
    return Promise.race([this.#ready.promise, this.lost]);
  }

  /** Rehearses the boot configuration in a guest that waits for it: the real one is faster then. */
  rehearse(): Promise<void> {
    return this.#send({ t: "Rehearse" });
  }

  /**
   * Sends the guest its boot configuration and waits until it is ready
   * (docs/design/contracts/07-guest-wire.md §7, handshake).
   */
  async boot({ id, name, env, files, abilities }: GuestBoot): Promise<GuestStage[]> {
    const version = await this.connected();
    if (version !== GUEST_VERSION) {
      throw new SbxError(
        "vm.boot_failed",
        `the image's guest programs have version ${version}; this sbx needs version ${GUEST_VERSION}`,
        {
          hint: "build the image of its profile again: sbx image build PROFILE",
        },
      );
    }
    await this.#send({
      t: "BootConfig",
      epoch_ms: Date.now(),
      seed: crypto.getRandomValues(new Uint8Array(SEED_BYTES)).toBase64(),
      hostname: name,
      machine_id: id.replaceAll("-", ""),
      ...abilities?.includes("user_namespaces") && { user_namespaces: true },
    });
    for (const [key, value] of Object.entries(env)) await this.#send({ t: "SetEnv", key, value });
    for (const file of files) await this.#send({ t: "FileWrite", ...file });
    await this.#send({ t: "BootConfigDone" });
    return await Promise.race([this.#booted.promise, this.lost]);
  }

  /** Settles when the guest is ready; rejects when it is lost. */
  booted(): Promise<unknown> {
    return Promise.race([this.#booted.promise, this.lost, this.#gone.promise]);
  }

  /** The guest is lost, or was left for a while. */
  get isOver(): boolean {
    return this.#isOver;
  }

  /** Has the guest report its programs' activity, under a key that no other program of it can guess. */
  askActivity(): Promise<void> {
    const key = this.#activityKey = newId();
    return this.#send({ t: "Activity", key });
  }

  /** True if it is the last key; it is good once. */
  admitsActivity(key: string): boolean {
    if (key !== this.#activityKey) return false;
    this.#activityKey = undefined;
    return true;
  }

  /** Runs a program to its end. @param kept of one that outlives this link */
  exec(
    request: ExecRequest,
    streams: ExecStreams,
    cancelled?: AbortSignal,
    kept?: Omit<KeptProgram, "id">,
  ): Promise<ExecResult> {
    return this.#programs.run(request, streams, cancelled, kept);
  }

  /**
   * Takes a program that an earlier link left. One of the name for another request is ended.
   *
   * @returns undefined without one
   */
  takeKept(name: string, request: string): KeptProgram | undefined {
    const kept = this.#left.get(name);
    this.#left.delete(name);
    if (kept && kept.request !== request) {
      this.#send({ t: "ExecKill", id: kept.id }).catch(ignore("the guest is lost, and its programs with it"));
      return undefined;
    }
    return kept;
  }

  /** Awaits the end of a program that an earlier link left. */
  adopt(program: KeptProgram, streams: ExecStreams, cancelled?: AbortSignal): Promise<ExecResult> {
    return this.#programs.adopt(program, streams, cancelled);
  }

  /** The VM's shell terminal while its program runs. */
  get shell(): Terminal | undefined {
    return this.#shell?.ended ? undefined : this.#shell;
  }

  /**
   * Opens a terminal for a program; without one the VM's shell terminal, a new one if its program has
   * ended.
   *
   * @throws {SbxError} `vm.busy`
   */
  terminal(
    size: { cols: number; rows: number },
    program?: TerminalProgram,
    ofShell: Partial<TerminalProgram> = {},
  ): Terminal {
    if (!program && this.shell) return this.shell;
    this.requireRoom();
    const id = newId();
    const terminal = new Terminal(id, (message) => this.#send(message));
    this.#terminals.set(id, terminal);
    if (!program) this.#shell = terminal;
    this.#send({ t: "PtyOpen", id, ...size, ...program ?? ofShell }).catch(() => terminal.lose());
    return terminal;
  }

  /**
   * Checks that one more terminal may open; one that was hung up counts until the guest has closed it.
   * @throws {SbxError} `vm.busy`
   */
  requireRoom(): void {
    if (this.#terminals.size < TERMINALS_MAX) return;
    throw new SbxError("vm.busy", `the VM has ${TERMINALS_MAX} open terminals, the limit`, {
      hint: "close one of them",
    });
  }

  /** Waits until a file written by the host shows its size in the guest; false without a report in time. */
  async awaitFile(path: string, size: number, deadlineMs = FILE_DEADLINE_MS): Promise<boolean> {
    const id = newId();
    const { promise, resolve, reject } = Promise.withResolvers<boolean>();
    this.#files.set(id, resolve);
    const deadline = backgroundTimeout(() => resolve(false), deadlineMs);
    // A guest that takes no frames, paused or not, holds up the write itself.
    this.#send({ t: "AwaitFile", id, path, size }).catch(reject);
    try {
      return await Promise.race([promise, this.lost]);
    } finally {
      clearTimeout(deadline);
      this.#files.delete(id);
    }
  }

  /**
   * Compares the guest's clock with the host's. Settles when the guest answers, also after a pause.
   *
   * @returns `ms` by which it is slow, and the error of that: half of the time that the answer took
   */
  async readClock(): Promise<{ slowMs: number; errorMs: number }> {
    const id = newId();
    const { promise, resolve } = Promise.withResolvers<number>();
    this.#clocks.set(id, resolve);
    try {
      const [sent, hostMs] = [performance.now(), Date.now()];
      await this.#send({ t: "Clock", id });
      const guestMs = await Promise.race([promise, this.lost, this.#gone.promise]);
      const errorMs = (performance.now() - sent) / 2;
      return { slowMs: hostMs + errorMs - guestMs, errorMs };
    } finally {
      this.#clocks.delete(id);
    }
  }

  /** Gives the guest up unless it answers in `limitMs`: its connections are gone for good. */
  async requireAnswer(limitMs: number, error: () => SbxError): Promise<void> {
    const late = rejectAfter(limitMs, error);
    await Promise.race([this.readClock(), late]).catch((failure) => this.#lose(failure));
  }

  /** Moves the guest's clock forward, or back where `ms` is negative. */
  shiftClock(ms: number): Promise<void> {
    return this.#send({ t: "ClockShift", ms });
  }

  /** A program or a file of the guest is awaited, or a terminal is watched. */
  get isInUse(): boolean {
    return this.#programs.count > 0 || this.#files.size > 0 ||
      this.#terminals.values().some(({ isWatched }) => isWatched);
  }

  /** Holds back writes to the guest until {@linkcode release}; to be called before its machine is paused. */
  hold(): Promise<void> {
    return this.#ports.hold();
  }

  /** Lets held writes continue; to be called after the machine resumes. */
  release(): void {
    this.#ports.release();
  }

  /** Asks the agent to eject its vsock, so that the machine can be written down; the link ends with it. */
  async detach(): Promise<void> {
    this.#isDetaching = true;
    await this.#send({ t: "Detach" });
    // From here on the agent kills no program for a client that leaves.
    const left = leftError();
    this.#gone.reject(left);
    for (const terminal of this.#terminals.values()) terminal.end(left);
  }

  /** What runs in the guest since before its machine was written down. */
  resume({ shell, programs }: GuestState): void {
    for (const program of programs) this.#left.set(program.name, program);
    if (shell) this.#adoptShell(shell);
  }

  #adoptShell({ id, replay }: ShellState): void {
    const shell = new Terminal(id, (message) => this.#send(message), replay);
    this.#terminals.set(id, shell);
    this.#shell = shell;
  }

  /** What {@linkcode resume} takes. */
  get state(): GuestState {
    const { shell } = this;
    return {
      ...shell && { shell: { id: shell.id, replay: shell.replay } },
      programs: [...this.#left.values(), ...this.#programs.kept],
    };
  }

  /** Asks the guest to write out its data and power off. */
  shutDown(): Promise<void> {
    return this.#send({ t: "Shutdown" });
  }

  /** Ends everything at once; another link may listen in the same folder when this settles. */
  async close(): Promise<void> {
    this.release();
    this.#lose(new SbxError("process.gone", "the VM has ended"));
    for (const terminal of this.#terminals.values()) terminal.lose();
    await this.#ports.close();
  }

  #send(message: HostMessage): Promise<void> {
    if (!this.#control) {
      return Promise.reject(new SbxError("vm.wrong_state", "the guest is not connected yet"));
    }
    return this.#control.send(message);
  }

  async #serveControl(channel: FrameChannel): Promise<void> {
    // The agent connects once and first; any later connection comes from another program of the guest.
    if (this.#control) return;
    this.#control = channel;
    try {
      for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
        this.#handle(GuestMessage.parse(frame));
      }
      throw new SbxError("guest.failed", "the connection to the guest's agent ended");
    } catch (error) {
      if (this.#isDetaching) return;
      this.#lose(protocolError(error));
    }
  }

  #handle(message: GuestMessage): void {
    switch (message.t) {
      case "Ready":
        return this.#ready.resolve(message.version);
      case "BootReady":
        return this.#booted.resolve(message.stages);
      case "BootFailed":
        return this.#booted.reject(
          new SbxError("vm.boot_failed", `the guest failed to boot: ${message.error}`),
        );
      case "ExecExited":
        return this.#programs.finish(message);
      case "ExecInline":
        return this.#programs.receive(message);
      case "Running":
        this.#programs.started(message);
        return this.#terminals.get(message.id)?.started(message.pid);
      case "FileVisible":
        return this.#files.get(message.id)?.(message.visible);
      case "Clock":
        return this.#clocks.get(message.id)?.(message.epoch_ms);
      case "PtyExited":
        this.#terminals.get(message.id)?.exited(message.exit_code);
        this.#terminals.delete(message.id);
        if (this.#shell?.id === message.id) this.#shell = undefined;
    }
  }

  async #serveTerminal(channel: FrameChannel, conn: Deno.Conn): Promise<void> {
    const { id } = TerminalAttach.parse(await channel.next());
    await this.#terminals.get(id)?.serve(conn, channel.reader.rest());
  }
}

/** Length of an id, in `bytes`: other programs of the guest cannot guess it. */
const ID_BYTES = 16;

function newId(): string {
  return crypto.getRandomValues(new Uint8Array(ID_BYTES)).toHex();
}

function protocolError(cause: unknown): SbxError {
  if (cause instanceof SbxError) return cause;
  return new SbxError("guest.failed", "the guest broke the protocol of its control connection", { cause });
}

function leftError(): SbxError {
  return new SbxError(
    "vm.suspended",
    "the VM was suspended or forked; its programs go on without their clients",
    {
      hint: "sbx info NAME shows whether it runs; sbx resume NAME brings a suspended one back",
    },
  );
}
