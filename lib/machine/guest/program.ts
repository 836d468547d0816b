/** Programs that the host runs in the guest. */
import { ignore, SbxError } from "../../base/error/mod.ts";
import { backgroundTimeout, rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { Window } from "../../base/window/mod.ts";
import { FrameChannel } from "../../base/wire/mod.ts";
import { ExecOutput, ExecStarted } from "./schema.ts";
import {
  type ExecInput,
  type GuestMessage,
  type HostMessage,
  INLINE_BYTES,
  INPUT_PIECE,
  INPUT_WINDOW,
} from "./wire/mod.ts";
import { acceptAll } from "../../base/accept/mod.ts";
import { removeIfThere } from "../../base/home/mod.ts";
import { vsockPath } from "../vm/mod.ts";

/** Time after a program's own limit until the host stops waiting for the guest, in `ms`. */
const OVERDUE_MS = timeLimit(10_000);
/** Time after a program's end for the connection of its streams to appear, in `ms`. */
const STREAMS_MS = timeLimit(10_000);

/** Most programs at once (docs/design/contracts/14-limits.md §14): half of the connections of their port. */
const PROGRAMS_MAX = 128;

/** One program to run in the guest. */
export type ExecRequest = Omit<Extract<HostMessage, { t: "Exec" }>, "t" | "id">;

/** A piece of output on the control connection. */
type InlineOutput = Extract<GuestMessage, { t: "ExecInline" }>;

/** Ends of a program's streams on the host. */
export interface ExecStreams {
  /** takes a base64 piece of output; awaited for back-pressure */
  output(stream: "stdout" | "stderr", data: string): Promise<void>;
  /** returns the next base64 piece of input; null closes the program's stdin */
  input(): Promise<string | null>;
  /** the program is this process of the guest */
  started?(pid: number): void;
}

/** The guest's report of a program's end. */
export type ExecResult = Extract<GuestMessage, { t: "ExecExited" }>;

/** Control connection of a guest, for its programs. */
export interface Control {
  send(message: HostMessage): Promise<void>;
  /** rejects when the guest is lost */
  readonly lost: Promise<never>;
  /** an id that no other program of the guest can guess */
  newId(): string;
}

/** A program that outlives its link: its host finds it again after it was away. */
export interface KeptProgram {
  id: string;
  /** name under which it is found, and a text that the request for it must have again */
  name: string;
  request: string;
  /** event of its start */
  event_id: string;
}

interface PendingExec {
  /** absent: it is let go of when the guest is left */
  kept?: Omit<KeptProgram, "id">;
  streams: ExecStreams;
  /** `bytes` that each output stream may still have */
  remaining: { stdout: number; stderr: number };
  inline: Inline;
  /** its input is sent to it */
  takesInput: boolean;
  /** input under way to it */
  window: Window;
  exited: PromiseWithResolvers<ExecResult>;
  /** resolves when the guest says that it runs */
  running: PromiseWithResolvers<void>;
  /** resolves when the program's streams have their connection; only the first one counts */
  attached: PromiseWithResolvers<void>;
  isAttached: boolean;
  /** resolves at the end of the program's streams; rejects when they break off */
  drained: PromiseWithResolvers<void>;
  /** resolves when the program has no more waiters */
  over: PromiseWithResolvers<void>;
}

/** Programs in progress in one guest. */
export class Programs {
  readonly #control: Control;
  readonly #overdueMs: number;
  readonly #answerMs: number;
  readonly #pending = new Map<string, PendingExec>();

  /**
   * @param overdueMs time after a program's own limit until the guest is no longer waited for
   * @param answerMs time for the guest to say that a program that was left still runs
   */
  constructor(control: Control, overdueMs = OVERDUE_MS, answerMs = STREAMS_MS) {
    this.#control = control;
    this.#overdueMs = overdueMs;
    this.#answerMs = answerMs;
  }

  /** Programs with waiters, but kept ones, which are no use of the guest. */
  get count(): number {
    return this.#pending.values().filter(({ kept }) => !kept).toArray().length;
  }

  get kept(): KeptProgram[] {
    return Array.from(this.#pending).flatMap(([id, { kept }]) => kept ? [{ id, ...kept }] : []);
  }

  /**
   * Runs a program to its end.
   *
   * @param kept of one that is found again after the guest was left
   * @throws {SbxError} `vm.busy`, `exec.timeout`, `guest.failed`
   */
  async run(
    request: ExecRequest,
    streams: ExecStreams,
    cancelled?: AbortSignal,
    kept?: Omit<KeptProgram, "id">,
  ): Promise<ExecResult> {
    const id = this.#control.newId();
    return await this.#run({ t: "Exec", id, ...request }, streams, cancelled, kept);
  }

  /**
   * Awaits the end of a program that was left.
   * @throws {SbxError} as {@linkcode run}; `guest.failed`: it has ended
   */
  async adopt(program: KeptProgram, streams: ExecStreams, cancelled?: AbortSignal): Promise<ExecResult> {
    const { id, ...kept } = program;
    const result = await this.#run({ t: "ExecAdopt", id }, streams, cancelled, kept);
    if (result.error !== undefined) throw goneMeanwhile();
    return result;
  }

  async #run(
    message: Extract<HostMessage, { t: "Exec" | "ExecAdopt" }>,
    streams: ExecStreams,
    cancelled?: AbortSignal,
    kept?: Omit<KeptProgram, "id">,
  ): Promise<ExecResult> {
    const request: Partial<ExecRequest> = message.t === "Exec" ? message : {};
    const { id } = message;
    if (this.#pending.size >= PROGRAMS_MAX) {
      throw new SbxError("vm.busy", `the VM runs ${PROGRAMS_MAX} programs for the host, the limit`, {
        hint: "wait until one of them has ended",
      });
    }
    const { lost } = this.#control;
    const pending: PendingExec = {
      kept,
      streams,
      remaining: { stdout: request.limit ?? Infinity, stderr: request.limit ?? Infinity },
      inline: new Inline(),
      takesInput: request.stdin ?? false,
      window: new Window(INPUT_WINDOW),
      exited: Promise.withResolvers(),
      running: Promise.withResolvers(),
      attached: Promise.withResolvers(),
      isAttached: false,
      drained: Promise.withResolvers(),
      over: Promise.withResolvers(),
    };
    pending.drained.promise.catch(ignore("a program that fails to start ends without streams"));
    this.#pending.set(id, pending);
    const kill = () =>
      this.#control.send({ t: "ExecKill", id }).catch(ignore("the guest is lost, and its programs with it"));
    cancelled?.addEventListener("abort", kill);
    if (!request.stdin) skipInput(streams);
    const overdue = rejectOverdue(request.timeout_ms, this.#overdueMs);
    /** Every step waits on the guest, which may have stopped. */
    const step = <T>(promise: Promise<T>): Promise<T> => Promise.race([promise, lost, overdue]);
    try {
      await step(this.#control.send(message));
      if (message.t === "ExecAdopt") {
        const { running, exited } = pending;
        await step(
          Promise.race([running.promise, exited.promise, rejectAfter(this.#answerMs, goneMeanwhile)]),
        );
      }
      const result = await step(pending.exited.promise);
      if (result.error) return result;
      if (result.inline) {
        await step(pending.inline.written);
        return result;
      }
      // The streams are on a connection of their own: its end may come later than the program's.
      if (!pending.isAttached) {
        await step(Promise.race([pending.attached.promise, rejectAfter(STREAMS_MS, brokenOff)]));
      }
      await step(pending.drained.promise);
      return result;
    } catch (error) {
      // An agent that was stopped would run it later.
      kill();
      throw error;
    } finally {
      cancelled?.removeEventListener("abort", kill);
      this.#pending.delete(id);
      pending.over.resolve();
      pending.window.close();
    }
  }

  /** Passes on the process id of a program. */
  started({ id, pid }: Extract<GuestMessage, { t: "Running" }>): void {
    const pending = this.#pending.get(id);
    pending?.running.resolve();
    pending?.streams.started?.(pid);
  }

  /** Settles the program of a result. */
  finish(result: ExecResult): void {
    this.#pending.get(result.id)?.exited.resolve(result);
  }

  /**
   * Takes output from the control connection, which does not wait for the program's client.
   * @throws {SbxError} too much
   */
  receive({ id, stream, data }: InlineOutput): void {
    const pending = this.#pending.get(id);
    pending?.inline.take(data, () => write(pending, stream, data));
  }

  /** Serves one connection of the exec port. */
  async serve(channel: FrameChannel): Promise<void> {
    const first = await channel.next();
    if (first === null) return;
    const { id, inline = 0 } = ExecStarted.parse(first);
    const pending = this.#pending.get(id);
    if (!pending || pending.isAttached) return;
    pending.isAttached = true;
    pending.attached.resolve();
    if (pending.takesInput) sendInput(channel, pending);
    const received = pending.inline.until(inline).then(() => receiveOutput(channel, pending)).then(
      pending.drained.resolve,
      pending.drained.reject,
    );
    // A descendant of the program may keep its streams open for ever.
    await Promise.race([received, pending.over.promise]);
  }
}

/**
 * @throws {SbxError} `guest.failed`: the connection ends before the output does, or
 * with a frame that is not allowed
 */
async function receiveOutput(channel: FrameChannel, pending: PendingExec): Promise<void> {
  while (true) {
    const output = await nextOutput(channel);
    if ("end" in output) return;
    if ("taken" in output) pending.window.release(output.taken);
    else await write(pending, output.stream, output.data);
  }
}

/** Passes output on. The agent enforces the limit; a guest that does not is cut off here. */
async function write(
  { remaining, streams }: Pick<PendingExec, "remaining" | "streams">,
  stream: "stdout" | "stderr",
  data: string,
): Promise<void> {
  remaining[stream] -= data.length * 0.75 - 2;
  if (remaining[stream] >= 0) await streams.output(stream, data);
}

/** Output of one program on the control connection, in the order of its arrival. */
class Inline {
  #pieces = 0;
  #bytes = 0;
  #written: Promise<void> = Promise.resolve();
  #awaited?: { pieces: number; arrived: () => void };

  /** settles when all that has arrived was written */
  get written(): Promise<void> {
    return this.#written;
  }

  /** @throws {SbxError} `guest.failed`: more than {@linkcode INLINE_BYTES} */
  take(data: string, write: () => Promise<void>): void {
    this.#bytes += Math.max(0, data.length * 0.75 - 2);
    if (this.#bytes > INLINE_BYTES) {
      throw new SbxError("guest.failed", "the guest sent too much output on its control connection");
    }
    this.#written = this.#written.then(write);
    this.#written.catch(ignore("the wait for all output has the failure"));
    if (++this.#pieces === this.#awaited?.pieces) this.#awaited.arrived();
  }

  /** Resolves when so many pieces were written. */
  async until(pieces: number): Promise<void> {
    if (this.#pieces < pieces) {
      await new Promise<void>((arrived) => this.#awaited = { pieces, arrived });
    }
    await this.#written;
  }
}

async function nextOutput(channel: FrameChannel): Promise<ExecOutput> {
  try {
    return ExecOutput.parse(await channel.next());
  } catch (cause) {
    throw brokenOff(cause);
  }
}

function brokenOff(cause?: unknown): SbxError {
  return new SbxError("guest.failed", "the guest broke off the output of the program: its end is missing", {
    cause,
    hint: "run the program again; sbx logs NAME shows the guest's console",
  });
}

function goneMeanwhile(): SbxError {
  return new SbxError("guest.failed", "its program ended while the VM was away");
}

async function sendInput(
  channel: FrameChannel,
  { streams, window }: Pick<PendingExec, "streams" | "window">,
): Promise<void> {
  try {
    for (let data = await streams.input(); data !== null; data = await streams.input()) {
      const bytes = Uint8Array.fromBase64(data);
      for (let at = 0; at < bytes.length; at += INPUT_PIECE) {
        const piece = bytes.subarray(at, at + INPUT_PIECE);
        if (!await window.claim(piece.length)) return;
        await channel.send({ stream: "stdin", data: piece.toBase64() } satisfies ExecInput);
      }
    }
    await channel.send({ stream: "stdin", end: true } satisfies ExecInput);
  } catch {
    // the program ended before its input did
  }
}

/** Reads input that its program does not take: the sender may go away, which only the input's end shows. */
async function skipInput(streams: ExecStreams): Promise<void> {
  try {
    while (await streams.input() !== null);
  } catch {
    // the program ended before
  }
}

/** Rejects when a program is far beyond its time limit; never settles for a program without a limit. */
function rejectOverdue(timeoutMs: number | undefined, overdueMs: number): Promise<never> {
  if (timeoutMs === undefined) return new Promise(() => {});
  return rejectAfter(
    timeoutMs + overdueMs,
    () => new SbxError("exec.timeout", "the guest did not end the program at its time limit"),
  );
}

/**
 * Most open connections of a guest on one port (docs/design/contracts/14-limits.md §14); more would be an
 * attack or a bug.
 */
const CONNECTIONS_MAX = 256;
/** Time for a connection to send its first frame, in `ms` (docs/design/contracts/14-limits.md §14). */
const FIRST_FRAME_MS = timeLimit(10_000);
/**
 * Most `bytes` of a first frame, which any program of the guest may send (docs/design/contracts/14-limits.md
 * §14).
 */
const FIRST_FRAME_LIMIT = 4096;
/** Time for the vsock to deliver pending writes before its guest is paused, in `ms`. */
const DRAIN_MS = 20;

/** Limits of one port. */
export interface PortLimits {
  /** most open connections */
  maxConnections?: number;
  /** longest frame, in `bytes` */
  frameLimit?: number;
  /** longest first frame, in `bytes` */
  firstFrameLimit?: number;
  /** longest frame of the host, in `bytes`; default: `frameLimit` */
  sendLimit?: number;
  /** time for the first frame, in `ms` */
  firstFrameMs?: number;
}

/** Listeners and open connections of one guest. */
export class GuestPorts {
  readonly #dir: string;
  readonly #listeners: Deno.Listener[] = [];
  /** settle when the ports are served no more */
  readonly #served: Promise<void>[] = [];
  readonly #connections = new Map<FrameChannel, Deno.Conn>();
  /** settles when the guest runs again; nothing may be written to a paused guest */
  #paused?: PromiseWithResolvers<void>;

  /** @param dir folder of the machine's sockets */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /**
   * Serves one port until {@linkcode close}; to be called before the machine starts. Any program of the guest
   * may connect: an error of `serve` closes only its own connection. A connection that sends no frame is
   * closed after a time, and before that it makes room for a new one when the port is full, so that silent
   * connections of one program keep no other from the port. A socket that a killed process left is replaced.
   */
  accept(
    port: number,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
    limits: PortLimits = {},
  ): Promise<void> {
    const path = vsockPath(this.#dir, port);
    removeIfThere(path);
    const listener = Deno.listen({ transport: "unix", path });
    this.#listeners.push(listener);
    const served = this.#serve(listener, serve, limits);
    this.#served.push(served.catch(ignore("the caller has the failure")));
    return served;
  }

  async #serve(
    listener: Deno.Listener,
    serve: (channel: FrameChannel, conn: Deno.Conn) => Promise<void>,
    {
      maxConnections = CONNECTIONS_MAX,
      frameLimit,
      firstFrameLimit = FIRST_FRAME_LIMIT,
      sendLimit = frameLimit,
      firstFrameMs = FIRST_FRAME_MS,
    }: PortLimits,
  ): Promise<void> {
    /** open connections of this port, in the order of their arrival */
    const open = new Set<FrameChannel>();
    for await (const conn of acceptAll(listener)) {
      const channel = new FrameChannel(conn, frameLimit, firstFrameLimit, sendLimit);
      if (open.size >= maxConnections) {
        const silent = open.values().find(({ reader }) => !reader.begun);
        if (!silent) {
          channel.close();
          continue;
        }
        open.delete(silent);
        silent.close();
      }
      open.add(channel);
      this.#connections.set(channel, conn);
      if (this.#paused) holdWrites(conn, this.#paused.promise);
      const deadline = backgroundTimeout(() => this.#closeSilent(channel), firstFrameMs);
      serve(channel, conn).catch(ignore("its connection is closed; a guest may send anything")).finally(
        () => {
          clearTimeout(deadline);
          open.delete(channel);
          this.#connections.delete(channel);
          channel.close();
        },
      );
    }
  }

  /** Closes a connection without a frame; a close is a write too, and waits until the guest runs. */
  async #closeSilent(channel: FrameChannel): Promise<void> {
    await this.#paused?.promise;
    if (!channel.reader.begun) channel.close();
  }

  /**
   * Holds back writes to the guest until {@linkcode release}; to be called before its machine is paused. The
   * thread of vhost-device-vsock ends when it gets bytes for a machine stopped by QEMU.
   */
  async hold(): Promise<void> {
    if (this.#paused) return;
    this.#paused = Promise.withResolvers();
    for (const conn of this.#connections.values()) holdWrites(conn, this.#paused.promise);
    await new Promise((resolve) => setTimeout(resolve, DRAIN_MS));
  }

  /** Lets held writes continue; to be called after the machine resumes. */
  release(): void {
    for (const conn of this.#connections.values()) delete (conn as { write?: unknown }).write;
    this.#paused?.resolve();
    this.#paused = undefined;
  }

  /**
   * Ends all connections. A machine that starts in place of this one may listen once this settles: Deno
   * removes a socket when the last accept on it has ended, and would remove the other one's.
   */
  async close(): Promise<void> {
    for (const listener of this.#listeners) listener.close();
    for (const channel of this.#connections.keys()) channel.close();
    await Promise.all(this.#served);
  }
}

/** Shadows the class's `write` with an own property: connections of a running guest pay nothing. */
function holdWrites(conn: Deno.Conn, until: Promise<void>): void {
  const write = conn.write.bind(conn);
  conn.write = async (bytes) => {
    await until;
    return await write(bytes);
  };
}
