/** Programs that the host runs in the guest. */
import { SbxError } from "../base/error/mod.ts";
import { rejectAfter } from "../base/time/mod.ts";
import type { FrameChannel } from "../base/wire/mod.ts";
import { ExecOutput, ExecStarted } from "./schema.ts";
import type { ExecInput, GuestMessage, HostMessage } from "./wire/mod.ts";

/** Time after a program's own limit until the host stops waiting for the guest, in `ms`. */
const OVERDUE_MS = 10_000;
/** Time after a program's end for the connection of its streams to appear, in `ms`. */
const STREAMS_MS = 10_000;

/** Most programs at once (docs/contracts.md §14): half of the connections of their port. */
const PROGRAMS_MAX = 128;

/** One program to run in the guest. */
export type ExecRequest = Omit<Extract<HostMessage, { t: "Exec" }>, "t" | "id">;

/** Ends of a program's streams on the host. */
export interface ExecStreams {
  /** takes a base64 piece of output; awaited for back-pressure */
  output(stream: "stdout" | "stderr", data: string): Promise<void>;
  /** returns the next base64 piece of input; null closes the program's stdin */
  input(): Promise<string | null>;
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
  /** most `bytes` of each output stream */
  limit: number;
  exited: PromiseWithResolvers<ExecResult>;
  /** resolves when the program's streams have their connection; only the first one counts */
  attached: PromiseWithResolvers<void>;
  isAttached: boolean;
  /** resolves at the end of the program's streams; rejects when they break off */
  drained: PromiseWithResolvers<void>;
  /** resolves when nobody waits for the program any more */
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

  /** Programs that somebody waits for. */
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
      limit: request.limit ?? Infinity,
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
    const overdue = rejectOverdue(request.timeout_ms, this.#overdueMs);
    /** Every step waits on the guest, which may have stopped. */
    const step = <T>(promise: Promise<T>): Promise<T> => Promise.race([promise, lost, overdue]);
    try {
      await step(this.#control.send({ t: "Exec", id, ...request }));
      const result = await step(pending.exited.promise);
      if (result.error) return result;
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
    }
  }

  /** Settles the program of a result. */
  finish(result: ExecResult): void {
    this.#pending.get(result.id)?.exited.resolve(result);
  }

  /** Serves one connection of the exec port. */
  async serve(channel: FrameChannel): Promise<void> {
    const first = await channel.next();
    if (first === null) return;
    const pending = this.#pending.get(ExecStarted.parse(first).id);
    if (!pending || pending.isAttached) return;
    pending.isAttached = true;
    pending.attached.resolve();
    sendInput(channel, pending.streams);
    const received = receiveOutput(channel, pending).then(pending.drained.resolve, pending.drained.reject);
    // A descendant of the program may keep its streams open for ever.
    await Promise.race([received, pending.over.promise]);
  }
}

/** @throws {SbxError} `guest.failed`: the connection ends before the output does, or with a frame that is not allowed */
async function receiveOutput(channel: FrameChannel, { streams, limit }: PendingExec): Promise<void> {
  const remaining = { stdout: limit, stderr: limit };
  while (true) {
    const output = await nextOutput(channel);
    if ("end" in output) return;
    const { stream, data } = output;
    // The agent enforces the limit; a guest that does not is cut off here.
    remaining[stream] -= data.length * 0.75 - 2;
    if (remaining[stream] >= 0) await streams.output(stream, data);
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
    hint: "run the program again; sbx logs shows the guest's console",
  });
}

async function sendInput(channel: FrameChannel, streams: ExecStreams): Promise<void> {
  try {
    for (let data = await streams.input(); data !== null; data = await streams.input()) {
      await channel.send({ stream: "stdin", data } satisfies ExecInput);
    }
    await channel.send({ stream: "stdin", end: true } satisfies ExecInput);
  } catch {
    // the program ended before its input did
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
