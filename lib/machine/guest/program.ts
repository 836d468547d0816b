/** Programs that the host runs in the guest. */
import { SbxError } from "../../base/error/mod.ts";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { Window } from "../../base/window/mod.ts";
import type { FrameChannel } from "../../base/wire/mod.ts";
import { ExecOutput, ExecStarted } from "./schema.ts";
import {
  type ExecInput,
  type GuestMessage,
  type HostMessage,
  INLINE_BYTES,
  INPUT_PIECE,
  INPUT_WINDOW,
} from "./wire/mod.ts";

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

interface PendingExec {
  streams: ExecStreams;
  /** `bytes` that each output stream may still have */
  remaining: { stdout: number; stderr: number };
  inline: Inline;
  /** its input is sent to it */
  takesInput: boolean;
  /** input under way to it */
  window: Window;
  exited: PromiseWithResolvers<ExecResult>;
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
  readonly #pending = new Map<string, PendingExec>();

  /** @param overdueMs time after a program's own limit until the guest is no longer waited for */
  constructor(control: Control, overdueMs = OVERDUE_MS) {
    this.#control = control;
    this.#overdueMs = overdueMs;
  }

  /** Programs with waiters. */
  get count(): number {
    return this.#pending.size;
  }

  /** Runs a program to its end. @throws {SbxError} `vm.busy`, `exec.timeout`, `guest.failed` */
  async run(request: ExecRequest, streams: ExecStreams, cancelled?: AbortSignal): Promise<ExecResult> {
    if (this.#pending.size >= PROGRAMS_MAX) {
      throw new SbxError("vm.busy", `the VM runs ${PROGRAMS_MAX} programs for the host, the limit`, {
        hint: "wait until one of them has ended",
      });
    }
    const { lost } = this.#control;
    const id = this.#control.newId();
    const pending: PendingExec = {
      streams,
      remaining: { stdout: request.limit ?? Infinity, stderr: request.limit ?? Infinity },
      inline: new Inline(),
      takesInput: request.stdin,
      window: new Window(INPUT_WINDOW),
      exited: Promise.withResolvers(),
      attached: Promise.withResolvers(),
      isAttached: false,
      drained: Promise.withResolvers(),
      over: Promise.withResolvers(),
    };
    // A program that fails to start ends without streams.
    pending.drained.promise.catch(() => {});
    this.#pending.set(id, pending);
    const kill = () => this.#control.send({ t: "ExecKill", id }).catch(() => {});
    cancelled?.addEventListener("abort", kill);
    if (!request.stdin) skipInput(streams);
    const overdue = rejectOverdue(request.timeout_ms, this.#overdueMs);
    /** Every step waits on the guest, which may have stopped. */
    const step = <T>(promise: Promise<T>): Promise<T> => Promise.race([promise, lost, overdue]);
    try {
      await step(this.#control.send({ t: "Exec", id, ...request }));
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
    this.#pending.get(id)?.streams.started?.(pid);
  }

  /** Settles the program of a result. */
  finish(result: ExecResult): void {
    this.#pending.get(result.id)?.exited.resolve(result);
  }

  /** Takes output from the control connection, which does not wait for the program's client. @throws {SbxError} too much */
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

/** @throws {SbxError} `guest.failed`: the connection ends before the output does, or with a frame that is not allowed */
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
    this.#written.catch(() => {});
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
