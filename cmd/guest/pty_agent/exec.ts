/** Programs that run for the host: their start, streams and end. */
import { inheritNothing, spawnProgram } from "../../../ffi/libc/spawn.ts";
import { ignore } from "../../../lib/base/error/mod.ts";
import { FrameChannel, writeAll } from "../../../lib/base/wire/mod.ts";
import {
  type ExecInput,
  type ExecOutput,
  type ExecStarted,
  EXIT_CANNOT_RUN,
  EXIT_TIMED_OUT,
  FILE_PROGRAM,
  type HostMessage,
  INLINE_BYTES,
  PORT_PROGRAM,
  PORTS,
} from "../../../lib/machine/guest/wire/mod.ts";
import { FileAction } from "./guest_file.ts";
import type { Host } from "./host.ts";
import { asUser } from "./user.ts";
import {
  describeFailure,
  LAST_OUTPUT_MS,
  present,
  type RunningProgram,
  type Sink,
  type Source,
} from "./program.ts";

type Exec = Extract<HostMessage, { t: "Exec" }>;

/** Time between SIGTERM and SIGKILL, in `ms`. */
const GRACE_MS = 2000;
/** Most `bytes` of output read at once: the capacity of a pipe. */
const CHUNK = 64 * 1024;
/** Default directory of a program. */
const DEFAULT_CWD = "/workspace";

/**
 * Programs run for the host, each with its own connection for its input and for more than a little output.
 */
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

  /** The host is back, and wants to hear of a program that it left. */
  async adopt(id: string): Promise<void> {
    const execution = this.#executions.get(id);
    if (execution) return await execution.adopt();
    const error = "it ended while the host was away";
    const exit_code = EXIT_CANNOT_RUN;
    await this.#host.send({
      t: "ExecExited",
      id,
      exit_code,
      truncated: false,
      duration_ms: 0,
      inline: true,
      error,
    });
  }

  /** The host leaves for a while: programs go on, and their exit codes are lost. */
  abandonAll(): void {
    for (const execution of this.#executions.values()) execution.abandon();
  }

  killAll(): void {
    for (const execution of this.#executions.values()) execution.end("killed");
  }
}

/** One program and its streams. */
class Execution {
  #request: Exec;
  #host: Host;
  #child: RunningProgram | undefined;
  #endReason: "timed out" | "killed" | undefined;
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
      if (pid !== undefined) {
        this.#host.send({ t: "Running", id, pid }).catch(ignore("a host that has left asks again"));
      }
      // Deno loads its timers on first use, which takes a quarter of a second under emulation.
      if (timeout_ms) deadline = setTimeout(() => this.end("timed out"), timeout_ms);
      this.#child.status.then(() => {
        if (deadline !== undefined) clearTimeout(deadline);
        this.#leaveLater();
      });
      if (stdin && this.#child.stdin) this.#feed(await this.#open(), this.#child.stdin);
      const [status] = await Promise.all([
        this.#child.status,
        this.#pump("stdout", this.#child.stdout),
        this.#pump("stderr", this.#child.stderr),
      ]);
      channel = await this.#channel;
      if (channel) await this.#post(channel, { stream: "stdout", end: true });
      exit_code = this.#endReason === "timed out" ? EXIT_TIMED_OUT : status.code;
    } catch (cause) {
      error = describeFailure(cause);
      if (this.#child) this.end("killed");
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
    if (pid === undefined) return this.#child.stdout.close();
    signal(-pid, "SIGTERM");
    const killer = setTimeout(() => signal(-pid, "SIGKILL"), GRACE_MS);
    this.#child.status.finally(() => {
      clearTimeout(killer);
      signal(-pid, "SIGKILL");
    });
  }

  /**
   * Leaves the output of a program that has ended, after {@linkcode LAST_OUTPUT_MS}, if a child still has its
   * streams open. No timer otherwise: Deno loads its timers on first use.
   */
  #leaveLater(): void {
    const held = [this.#child!.stdout, this.#child!.stderr].filter(({ isHeld }) => isHeld);
    if (held.length > 0) setTimeout(() => held.forEach((stream) => stream.leave?.()), LAST_OUTPUT_MS);
  }

  /** The program's output has no reader any more; it goes on without. */
  abandon(): void {
    this.#isAbandoned = true;
  }

  /** The host reads on; output that it did not read meanwhile is gone. */
  async adopt(): Promise<void> {
    this.#isAbandoned = false;
    this.#channel = undefined;
    this.#inline = { pieces: 0, bytes: 0 };
    await this.#host.send({ t: "Running", id: this.#request.id, pid: this.#child?.pid ?? 0 });
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
    if (this.#isAbandoned) return;
    const data = part.toBase64();
    if (this.#channel || this.#inline.bytes + part.length > INLINE_BYTES) {
      return await this.#post(await this.#open(), { stream, data });
    }
    this.#inline.pieces++;
    this.#inline.bytes += part.length;
    await this.#host.send({ t: "ExecInline", id: this.#request.id, stream, data });
  }

  async #post(channel: FrameChannel, output: ExecOutput): Promise<void> {
    if (this.#isAbandoned) return;
    await channel.send(output).catch(async (error) => {
      // The host left while this was under way, and may be back.
      if (!this.#isAbandoned && await this.#channel === channel) throw error;
    });
  }

  async #spawn(): Promise<RunningProgram> {
    const { argv, cwd = DEFAULT_CWD, user, env, stdin } = this.#request;
    if (argv[0] === FILE_PROGRAM) return new FileAction(argv.slice(1));
    if (argv[0] === PORT_PROGRAM) return await PortConnection.open(argv[1]);
    inheritNothing();
    const as = asUser(user, this.#host.environment);
    return spawnProgram({ argv: present(argv), cwd, ...as, env: { ...as.env, ...env }, stdin });
  }

  /** Reads the input at once, whether or not the program does: the host sends no more than its window. */
  async #feed(channel: FrameChannel, stdin: Sink): Promise<void> {
    let written: Promise<void> = Promise.resolve();
    try {
      for (
        let frame = await channel.next() as ExecInput | null;
        frame && !("end" in frame);
        frame = await channel.next() as ExecInput | null
      ) {
        const bytes = Uint8Array.fromBase64(frame.data);
        if (bytes.length > 0) written = written.then(() => this.#write(channel, stdin, bytes));
      }
    } catch {
      // The host closed the connection, which only means the end of the input.
    } finally {
      await written;
      stdin.close();
    }
  }

  /** Writes a piece of input. If the program has closed its stdin, drops it without an error to the host. */
  async #write(
    channel: FrameChannel,
    stdin: Sink,
    bytes: Uint8Array<ArrayBuffer>,
  ): Promise<void> {
    await stdin.write(bytes).catch(ignore("the program has closed its input"));
    await this.#post(channel, { stream: "stdin", taken: bytes.length }).catch(ignore("the host has left"));
  }

  /** Sends a stream up to the limit, then drains it without sending, so that the program can finish. */
  async #pump(stream: "stdout" | "stderr", from: Source): Promise<void> {
    let remaining = this.#request.limit ?? Infinity;
    const chunk = new Uint8Array(CHUNK);
    for (let read = await from.read(chunk); read !== null; read = await from.read(chunk)) {
      if (read > remaining) this.#truncated = true;
      const part = chunk.subarray(0, Math.min(read, remaining));
      remaining -= part.length;
      if (part.length > 0) await this.#send(stream, part);
    }
  }
}

function signal(pid: number, name: Deno.Signal): void {
  try {
    Deno.kill(pid, name);
  } catch {
    // already ended
  }
}

/** Addresses of programs that listen on this machine. */
const LOOPBACKS = ["127.0.0.1", "::1"];

/** A connection to a port of the guest, with the streams of a program. */
class PortConnection implements RunningProgram {
  /** code 0 when the port's side has ended, 1 when the connection was reset */
  readonly status: Promise<{ code: number }>;
  readonly stdin: Sink;
  readonly stdout: Source;
  readonly stderr: Source = { read: () => Promise.resolve(null), close: () => {} };
  readonly #conn: Deno.TcpConn;
  readonly #ended = Promise.withResolvers<{ code: number }>();
  /** settles when the host has sent all */
  readonly #written = Promise.withResolvers<void>();

  private constructor(conn: Deno.TcpConn) {
    this.#conn = conn;
    conn.setNoDelay(true);
    this.status = this.#ended.promise;
    this.stdout = { read: (into) => this.#read(into), close: () => this.#close() };
    this.stdin = {
      write: (from) => writeAll(conn, from),
      close: () => {
        this.#written.resolve();
        conn.closeWrite().catch(ignore("the connection is closed"));
      },
    };
  }

  /** @throws {Deno.errors.ConnectionRefused} nothing listens there */
  static async open(port: string): Promise<PortConnection> {
    let refused: unknown;
    for (const hostname of LOOPBACKS) {
      try {
        return new PortConnection(await Deno.connect({ hostname, port: Number(port) }));
      } catch (error) {
        refused = error;
      }
    }
    throw refused;
  }

  async #read(into: Uint8Array<ArrayBuffer>): Promise<number | null> {
    const read = await this.#conn.read(into).catch(() => undefined);
    if (read) return read;
    this.#ended.resolve({ code: read === null ? 0 : 1 });
    this.#written.promise.then(() => this.#close());
    return null;
  }

  #close(): void {
    try {
      this.#conn.close();
    } catch {
      // closed already
    }
  }
}
