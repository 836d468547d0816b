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
}

/** Programs in progress in one guest. */
export class Programs {
  readonly #control: Control;
  readonly #pending = new Map<string, PendingExec>();

  constructor(control: Control) {
    this.#control = control;
  }

  /** Runs a program to its end. */
  async run(request: ExecRequest, streams: ExecStreams, cancelled?: AbortSignal): Promise<ExecResult> {
    const { lost } = this.#control;
    const id = this.#control.newId();
    const pending: PendingExec = {
      streams,
      limit: request.limit ?? Infinity,
      exited: Promise.withResolvers(),
      attached: Promise.withResolvers(),
      isAttached: false,
      drained: Promise.withResolvers(),
    };
    // A program that fails to start ends without streams.
    pending.drained.promise.catch(() => {});
    this.#pending.set(id, pending);
    const kill = () => this.#control.send({ t: "ExecKill", id }).catch(() => {});
    cancelled?.addEventListener("abort", kill);
    try {
      await this.#control.send({ t: "Exec", id, ...request });
      const result = await Promise.race([pending.exited.promise, lost, rejectOverdue(request.timeout_ms)]);
      if (result.error) return result;
      // The streams are on a connection of their own: its end may come later than the program's.
      if (!pending.isAttached) {
        await Promise.race([pending.attached.promise, lost, rejectAfter(STREAMS_MS, brokenOff)]);
      }
      await Promise.race([pending.drained.promise, lost]);
      return result;
    } finally {
      cancelled?.removeEventListener("abort", kill);
      this.#pending.delete(id);
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
    await receiveOutput(channel, pending).then(pending.drained.resolve, pending.drained.reject);
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
function rejectOverdue(timeoutMs: number | undefined): Promise<never> {
  if (timeoutMs === undefined) return new Promise(() => {});
  return rejectAfter(
    timeoutMs + OVERDUE_MS,
    () => new SbxError("exec.timeout", "the guest did not end the program at its time limit"),
  );
}
