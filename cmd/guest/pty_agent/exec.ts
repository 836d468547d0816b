import { FrameChannel } from "../../../lib/base/wire/mod.ts";
import {
  ERROR_CHARACTERS,
  type ExecInput,
  type ExecOutput,
  type ExecStarted,
  EXIT_CANNOT_RUN,
  EXIT_TIMED_OUT,
  type HostMessage,
  INLINE_BYTES,
  PORT_PROGRAM,
  PORTS,
} from "../../../lib/guest/wire/mod.ts";
import type { Host } from "./host.ts";
import { PortConnection } from "./port.ts";

type Exec = Extract<HostMessage, { t: "Exec" }>;

/** Time between SIGTERM and SIGKILL, in `ms`. */
const GRACE_MS = 2000;
/** Time for the last output of a program that was ended, in `ms`. */
const LAST_OUTPUT_MS = 500;
/** Default directory of a program. */
const DEFAULT_CWD = "/workspace";

/** Programs run for the host, each with its own connection for its input and for more than a little output. */
export class Executions {
  #host: Host;
  #executions = new Map<string, Execution>();

  constructor(host: Host) {
    this.#host = host;
  }

  start(request: Exec): void {
    const execution = new Execution(request, this.#host);
    this.#executions.set(request.id, execution);
    execution.run().finally(() => this.#executions.delete(request.id));
  }

  kill(id: string): void {
    this.#executions.get(id)?.end("killed");
  }

  /** The host leaves for a while: programs go on, and nobody learns how they end. */
  abandonAll(): void {
    for (const execution of this.#executions.values()) execution.abandon();
  }

  killAll(): void {
    for (const execution of this.#executions.values()) execution.end("killed");
  }
}

/** A process, or the connection of {@linkcode PORT_PROGRAM}. */
type RunningProgram =
  & Pick<Deno.ChildProcess, "stdin" | "stdout" | "stderr">
  & ({ pid: number; status: Promise<{ code: number }> } | Pick<PortConnection, "pid" | "status" | "close">);

/** One program and its streams. */
class Execution {
  #request: Exec;
  #host: Host;
  #child: RunningProgram | undefined;
  #endReason: "timed out" | "killed" | undefined;
  /** drops the output that is still to come */
  #drop = Promise.withResolvers<void>();
  #truncated = false;
  #isAbandoned = false;
  /** output on the control connection, which ends with the program's own connection */
  #inline = { pieces: 0, bytes: 0 };
  /** its own connection: opening one takes as long as a short program */
  #channel: Promise<FrameChannel> | undefined;

  constructor(request: Exec, host: Host) {
    this.#request = request;
    this.#host = host;
  }

  async run(): Promise<void> {
    const { id, timeout_ms, stdin } = this.#request;
    const started = performance.now();
    let deadline: ReturnType<typeof setTimeout> | undefined;
    let exit_code = EXIT_CANNOT_RUN;
    let error: string | undefined;
    let channel: FrameChannel | undefined;
    try {
      this.#child = await this.#spawn();
      const { pid } = this.#child;
      if (pid !== undefined) this.#host.send({ t: "Running", id, pid }).catch(() => {});
      if (timeout_ms) deadline = setTimeout(() => this.end("timed out"), timeout_ms);
      if (stdin) this.#feed(await this.#open(), this.#child.stdin);
      const [status] = await Promise.all([
        this.#child.status,
        this.#pump("stdout", this.#child.stdout),
        this.#pump("stderr", this.#child.stderr),
      ]);
      channel = await this.#channel;
      if (channel) await this.#tell(channel, { stream: "stdout", end: true });
      exit_code = this.#endReason === "timed out" ? EXIT_TIMED_OUT : status.code;
    } catch (cause) {
      error = describe(cause);
      if (this.#child) this.end("killed");
    } finally {
      // Deno loads its timers on first use, which takes a quarter of a second under emulation.
      if (deadline !== undefined) clearTimeout(deadline);
    }
    if (this.#isAbandoned) return;
    await this.#host.send({
      t: "ExecExited",
      id,
      exit_code,
      truncated: this.#truncated,
      duration_ms: performance.now() - started,
      inline: !channel,
      error,
    });
    channel?.close();
  }

  /** Sends SIGTERM to the program and its session, and SIGKILL after {@linkcode GRACE_MS}. */
  end(reason: "timed out" | "killed"): void {
    if (!this.#child || this.#endReason) return;
    this.#endReason = reason;
    const { pid } = this.#child;
    if (pid === undefined) return this.#child.close();
    signal(-pid, "SIGTERM");
    const killer = setTimeout(() => signal(-pid, "SIGKILL"), GRACE_MS);
    this.#child.status.finally(() => {
      clearTimeout(killer);
      signal(-pid, "SIGKILL");
      // A process that left its session holds its pipes open, perhaps for ever.
      setTimeout(this.#drop.resolve, LAST_OUTPUT_MS);
    });
  }

  /** Nobody takes the program's output any more; it goes on without. */
  abandon(): void {
    this.#isAbandoned = true;
  }

  /** Opens the program's own connection, which takes its streams from here on. */
  #open(): Promise<FrameChannel> {
    return this.#channel ??= this.#host.connect(PORTS.exec).then(async (conn) => {
      const channel = new FrameChannel(conn);
      const { id } = this.#request;
      await channel.send({ t: "ExecStarted", id, inline: this.#inline.pieces } satisfies ExecStarted);
      return channel;
    });
  }

  async #send(stream: "stdout" | "stderr", part: Uint8Array): Promise<void> {
    const data = part.toBase64();
    if (this.#channel || this.#inline.bytes + part.length > INLINE_BYTES) {
      return await this.#tell(await this.#open(), { stream, data });
    }
    this.#inline.pieces++;
    this.#inline.bytes += part.length;
    if (!this.#isAbandoned) await this.#host.send({ t: "ExecInline", id: this.#request.id, stream, data });
  }

  async #tell(channel: FrameChannel, output: ExecOutput): Promise<void> {
    if (this.#isAbandoned) return;
    await channel.send(output).catch((error) => {
      // The host left while this was under way.
      if (!this.#isAbandoned) throw error;
    });
  }

  async #spawn(): Promise<RunningProgram> {
    const { argv: [program, ...args], cwd = DEFAULT_CWD, env, stdin } = this.#request;
    if (program === PORT_PROGRAM) return await PortConnection.open(args[0]);
    return new Deno.Command(program, {
      args,
      cwd,
      env: { ...this.#host.environment, ...env },
      clearEnv: true,
      detached: true,
      stdin: stdin ? "piped" : "null",
      stdout: "piped",
      stderr: "piped",
    }).spawn();
  }

  async #feed(channel: FrameChannel, stdin: WritableStream<Uint8Array>): Promise<void> {
    const writer = stdin.getWriter();
    try {
      for (
        let frame = await channel.next() as ExecInput | null;
        frame && !("end" in frame);
        frame = await channel.next() as ExecInput | null
      ) {
        if (frame.data) await writer.write(Uint8Array.fromBase64(frame.data));
      }
      await writer.close();
    } catch {
      // The program closed its stdin, or the host closed the connection; neither needs handling.
    }
  }

  /**
   * Sends a stream up to the limit, then drains it without sending, so that the program can finish. That of a program
   * that was ended is left soon.
   */
  async #pump(stream: "stdout" | "stderr", from: ReadableStream<Uint8Array>): Promise<void> {
    let remaining = this.#request.limit ?? Infinity;
    const reader = from.getReader();
    this.#drop.promise.then(() => reader.cancel()).catch(() => {});
    for (let { value: chunk } = await reader.read(); chunk; { value: chunk } = await reader.read()) {
      if (chunk.length > remaining) this.#truncated = true;
      const part = chunk.length > remaining ? chunk.subarray(0, remaining) : chunk;
      remaining -= part.length;
      if (part.length > 0) await this.#send(stream, part);
    }
  }
}

/** Describes the error of a program that could not be started, without Deno's own terms. */
function describe(cause: unknown): string {
  if (cause instanceof Deno.errors.NotFound) return "the program or its working directory was not found";
  if (cause instanceof Deno.errors.PermissionDenied) return "the program is not executable";
  return (cause instanceof Error ? cause.message : String(cause)).slice(0, ERROR_CHARACTERS);
}

function signal(pid: number, name: Deno.Signal): void {
  try {
    Deno.kill(pid, name);
  } catch {
    // already ended
  }
}
