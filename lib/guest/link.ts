import { SbxError } from "../base/error/mod.ts";
import { vsockPath } from "../vm/hypervisor.ts";
import { FrameChannel } from "../base/wire/mod.ts";
import type { BootFile } from "./limit.ts";
import { type GuestMessage, type GuestStage, type HostMessage, PORTS } from "./messages.ts";
import * as schema from "./schema.ts";
import { Terminal } from "./terminal.ts";

/** The one version of sbx-pty-agent that this host speaks with. */
const AGENT_VERSION = "1";
/** How much longer than its own limit a program may take before the host gives up on the guest's word. */
const OVERDUE_MS = 10_000;
/** Connections that a guest may hold open at once on one port: more is an attack or a bug, and is refused. */
const MAX_CONNECTIONS = 256;
/** What the vsock is given to hand over what was written before its guest is paused, in milliseconds. */
const DRAIN_MS = 20;

/** One program to run in the guest. */
export type ExecRequest = Omit<Extract<HostMessage, { t: "Exec" }>, "t" | "id">;

/** Where a program's streams go and come from. */
export interface ExecStreams {
  /** base64 of a piece of output; awaited, which is the back-pressure */
  output(stream: "stdout" | "stderr", data: string): Promise<void>;
  /** base64 of the next piece of input; null closes the program's stdin */
  input(): Promise<string | null>;
}

type Exited = Extract<GuestMessage, { t: "ExecExited" }>;

interface Pending {
  streams: ExecStreams;
  limit: number;
  exited: PromiseWithResolvers<Exited>;
  /** settles once the guest has closed the program's streams */
  drained: PromiseWithResolvers<void>;
}

/** The host's end of one guest: its control connection, its programs and its terminal. */
export class GuestLink {
  /** rejects when the guest breaks the protocol or goes away; nothing of it is trusted afterwards */
  readonly lost: Promise<never>;
  #lose: (error: unknown) => void;
  #dir: string;
  #listeners: Deno.Listener[] = [];
  #open = new Map<FrameChannel, Deno.Conn>();
  /** settles when the guest runs again; while it stands still nothing may be written to it */
  #still?: PromiseWithResolvers<void>;
  #control: FrameChannel | undefined;
  #ready = Promise.withResolvers<string>();
  #booted = Promise.withResolvers<GuestStage[]>();
  #ids = 0;
  #pending = new Map<number, Pending>();
  #files = new Map<number, (visible: boolean) => void>();
  #terminals = new Map<number, Terminal>();
  #shell: Terminal | undefined;

  constructor(dir: string) {
    this.#dir = dir;
    const { promise, reject } = Promise.withResolvers<never>();
    this.lost = promise;
    this.#lose = reject;
    for (const each of [promise, this.#ready.promise, this.#booted.promise]) each.catch(() => {});
  }

  /** Listens on the guest's ports; before the machine starts. */
  listen(): void {
    this.accept(PORTS.control, (channel) => this.#serveControl(channel));
    this.accept(PORTS.exec, (channel) => this.#serveExec(channel));
    this.accept(PORTS.terminal, (channel, conn) => this.#serveTerminal(channel, conn));
  }

  /** Gives the guest its boot configuration and waits until it is ready (contracts.md §7, handshake). */
  async boot(env: Record<string, string>, files: BootFile[]): Promise<GuestStage[]> {
    const version = await Promise.race([this.#ready.promise, this.lost]);
    if (version !== AGENT_VERSION) {
      throw new SbxError(
        "vm.boot_failed",
        `the image's agent is version ${version}, this sbx needs ${AGENT_VERSION}`,
        {
          hint: "build the image again: sbx-admin image build",
        },
      );
    }
    await this.#send({ t: "BootConfig", epoch_ms: Date.now() });
    for (const [key, value] of Object.entries(env)) await this.#send({ t: "SetEnv", key, value });
    for (const file of files) await this.#send({ t: "FileWrite", ...file });
    await this.#send({ t: "BootConfigDone" });
    return await Promise.race([this.#booted.promise, this.lost]);
  }

  /** Runs a program to its end. */
  async exec(request: ExecRequest, streams: ExecStreams, cancelled?: AbortSignal): Promise<Exited> {
    const id = ++this.#ids;
    const pending: Pending = {
      streams,
      limit: request.limit ?? Infinity,
      exited: Promise.withResolvers(),
      drained: Promise.withResolvers(),
    };
    this.#pending.set(id, pending);
    const kill = () => this.#send({ t: "ExecKill", id }).catch(() => {});
    cancelled?.addEventListener("abort", kill);
    try {
      await this.#send({ t: "Exec", id, ...request });
      const exited = await Promise.race([pending.exited.promise, this.lost, overdue(request.timeout_ms)]);
      // A program that never started has no streams; those of any other may still be under way on their own connection.
      if (!exited.error) await Promise.race([pending.drained.promise, this.lost]);
      return exited;
    } finally {
      cancelled?.removeEventListener("abort", kill);
      this.#pending.delete(id);
    }
  }

  /** The VM's one terminal while its program runs. */
  get shell(): Terminal | undefined {
    return this.#shell?.ended ? undefined : this.#shell;
  }

  /** The VM's one terminal, a new one when there is none or its program has ended; a program has a terminal of its own. */
  terminal(size: { cols: number; rows: number }, argv?: string[]): Terminal {
    if (!argv && this.shell) return this.shell;
    const id = ++this.#ids;
    const terminal = new Terminal(id, (message) => this.#send(message));
    this.#terminals.set(id, terminal);
    if (!argv) this.#shell = terminal;
    this.#send({ t: "PtyOpen", id, ...size, argv }).catch(() => terminal.end());
    return terminal;
  }

  /** Waits until a file that the host wrote shows its size in the guest. */
  async awaitFile(path: string, size: number): Promise<boolean> {
    const id = ++this.#ids;
    const { promise, resolve } = Promise.withResolvers<boolean>();
    this.#files.set(id, resolve);
    try {
      await this.#send({ t: "AwaitFile", id, path, size });
      return await Promise.race([promise, this.lost]);
    } finally {
      this.#files.delete(id);
    }
  }

  /**
   * Holds back what is written to the guest until {@linkcode release}; before its machine is paused. The
   * thread of vhost-device-vsock ends when it is told of bytes for a machine that QEMU has stopped.
   */
  async hold(): Promise<void> {
    if (this.#still) return;
    this.#still = Promise.withResolvers();
    for (const conn of this.#open.values()) holdWrites(conn, this.#still.promise);
    await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
  }

  /** Lets go of what was held back; after its machine goes on. */
  release(): void {
    for (const conn of this.#open.values()) delete (conn as { write?: unknown }).write;
    this.#still?.resolve();
    this.#still = undefined;
  }

  /** Asks the guest to write everything out and power off. */
  shutDown(): Promise<void> {
    return this.#send({ t: "Shutdown" });
  }

  close(): void {
    this.release();
    this.#lose(new SbxError("process.gone", "the VM has ended"));
    for (const listener of this.#listeners) listener.close();
    for (const channel of this.#open.keys()) channel.close();
    for (const terminal of this.#terminals.values()) terminal.end();
  }

  #send(message: HostMessage): Promise<void> {
    if (!this.#control) return Promise.reject(new SbxError("vm.wrong_state", "the guest is not there yet"));
    return this.#control.send(message);
  }

  /**
   * Serves one port of the guest; before the machine starts.
   *
   * @param options.most connections that it may hold open there at once
   * @param options.frameLimit bytes of one frame
   */
  async accept(
    port: number,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
    { most = MAX_CONNECTIONS, frameLimit }: { most?: number; frameLimit?: number } = {},
  ): Promise<void> {
    const listener = Deno.listen({ transport: "unix", path: vsockPath(this.#dir, port) });
    this.#listeners.push(listener);
    let open = 0;
    for await (const conn of listener) {
      const channel = new FrameChannel(conn, frameLimit);
      if (open >= most) {
        channel.close();
        continue;
      }
      open++;
      this.#open.set(channel, conn);
      if (this.#still) holdWrites(conn, this.#still.promise);
      serve(channel, conn).catch((error) => {
        // Any program of the guest may connect to the other ports: what it breaks there is its own connection.
        if (channel === this.#control) this.#lose(protocolError(error));
      }).finally(() => {
        open--;
        this.#open.delete(channel);
        channel.close();
      });
    }
  }

  async #serveControl(channel: FrameChannel): Promise<void> {
    // The agent connects once; whoever comes second is some other program of the guest.
    if (this.#control) return;
    this.#control = channel;
    for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
      this.#handle(schema.GuestMessage.parse(frame));
    }
    throw new SbxError("guest.failed", "the guest's agent ended");
  }

  #handle(message: GuestMessage): void {
    switch (message.t) {
      case "Ready":
        return this.#ready.resolve(message.version);
      case "BootReady":
        return this.#booted.resolve(message.stages);
      case "BootFailed":
        return this.#booted.reject(
          new SbxError("vm.boot_failed", `the guest did not come up: ${message.error}`),
        );
      case "ExecExited":
        return this.#pending.get(message.id)?.exited.resolve(message);
      case "FileVisible":
        return this.#files.get(message.id)?.(message.visible);
      case "PtyExited":
        this.#terminals.get(message.id)?.end();
        this.#terminals.delete(message.id);
    }
  }

  async #serveExec(channel: FrameChannel): Promise<void> {
    const first = await channel.next();
    if (first === null) return;
    const pending = this.#pending.get(schema.ExecStarted.parse(first).id);
    if (!pending) return;
    this.#feed(channel, pending.streams);
    await this.#drain(channel, pending).finally(() => pending.drained.resolve());
  }

  async #drain(channel: FrameChannel, { streams, limit }: Pending): Promise<void> {
    const left = { stdout: limit, stderr: limit };
    for (let frame = await channel.next(); frame !== null; frame = await channel.next()) {
      const output = schema.Output.parse(frame);
      if ("end" in output) return;
      const { stream, data } = output;
      // The agent keeps to the limit; a guest that does not is cut off here.
      left[stream] -= data.length * 0.75 - 2;
      if (left[stream] >= 0) await streams.output(stream, data);
    }
  }

  async #feed(channel: FrameChannel, streams: ExecStreams): Promise<void> {
    try {
      for (let data = await streams.input(); data !== null; data = await streams.input()) {
        await channel.send({ stream: "stdin", data });
      }
      await channel.send({ stream: "stdin", end: true });
    } catch {
      // the program ended before its input did
    }
  }

  async #serveTerminal(channel: FrameChannel, conn: Deno.Conn): Promise<void> {
    const { id } = schema.Attach.parse(await channel.next());
    await this.#terminals.get(id)?.serve(conn, channel.reader.rest());
  }
}

/** Rejects when a guest has not ended a program long after it should have; never settles for a program without a limit. */
function overdue(timeoutMs: number | undefined): Promise<never> {
  if (timeoutMs === undefined) return new Promise(() => {});
  return new Promise((_, reject) => {
    const timer = setTimeout(() => {
      reject(new SbxError("exec.timeout", "the guest did not end the program when its time was over"));
    }, timeoutMs + OVERDUE_MS);
    Deno.unrefTimer(timer as unknown as number);
  });
}

/** An own property hides the class's method: a connection of a guest that runs pays nothing for this. */
function holdWrites(conn: Deno.Conn, until: Promise<void>): void {
  const write = conn.write.bind(conn);
  conn.write = async (bytes) => {
    await until;
    return await write(bytes);
  };
}

function protocolError(cause: unknown): SbxError {
  if (cause instanceof SbxError) return cause;
  return new SbxError("guest.failed", "the guest broke the protocol of its control connection", { cause });
}
