import { FrameChannel } from "../../../lib/base/wire/channel.ts";
import {
  EXIT_CANNOT_RUN,
  EXIT_TIMED_OUT,
  type GuestMessage,
  type HostMessage,
  type StreamFrame,
} from "../../../lib/guest/messages.ts";

type Exec = Extract<HostMessage, { t: "Exec" }>;

interface Host {
  environment: Record<string, string>;
  /** a new connection to the host's exec port */
  connect(): Promise<Deno.Conn>;
  send(message: GuestMessage): Promise<void>;
}

/** How long a program that was told to end may take before it is killed. */
const GRACE_MS = 2000;
/** Directory of programs that name none. */
const DEFAULT_CWD = "/workspace";

/** The programs that the host has running here, each with a connection of its own for its streams. */
export class Executions {
  #host: Host;
  #running = new Map<number, Running>();
  #spare: Promise<Deno.Conn> | undefined;

  constructor(host: Host) {
    this.#host = host;
  }

  /** Opens the next program's connection ahead of it: a round trip less when it starts. */
  warm(): void {
    this.#spare ??= this.#host.connect();
    // A failure shows when the connection is taken; until then nobody awaits it.
    this.#spare.catch(() => {});
  }

  start(request: Exec): void {
    const connection = this.#spare ?? this.#host.connect();
    this.#spare = undefined;
    const running = new Running(request, this.#host);
    this.#running.set(request.id, running);
    running.run(connection).finally(() => this.#running.delete(request.id));
    this.warm();
  }

  kill(id: number): void {
    this.#running.get(id)?.end("killed");
  }

  killAll(): void {
    for (const running of this.#running.values()) running.end("killed");
  }
}

class Running {
  #request: Exec;
  #host: Host;
  #child: Deno.ChildProcess | undefined;
  #ended: "timed out" | "killed" | undefined;
  #truncated = false;

  constructor(request: Exec, host: Host) {
    this.#request = request;
    this.#host = host;
  }

  async run(connection: Promise<Deno.Conn>): Promise<void> {
    const { id, timeout_ms, stdin } = this.#request;
    const started = performance.now();
    let deadline: ReturnType<typeof setTimeout> | undefined;
    let exit_code = EXIT_CANNOT_RUN;
    let error: string | undefined;
    let channel: FrameChannel | undefined;
    try {
      this.#child = this.#spawn();
      if (timeout_ms) deadline = setTimeout(() => this.end("timed out"), timeout_ms);
      channel = new FrameChannel(await connection);
      await channel.send({ t: "ExecStarted", id });
      if (stdin) this.#feed(channel, this.#child.stdin);
      const [status] = await Promise.all([
        this.#child.status,
        this.#pump(channel, "stdout", this.#child.stdout),
        this.#pump(channel, "stderr", this.#child.stderr),
      ]);
      await channel.send({ stream: "stdout", end: true } satisfies StreamFrame);
      exit_code = this.#ended === "timed out" ? EXIT_TIMED_OUT : status.code;
    } catch (cause) {
      error = reason(cause);
      if (this.#child) this.end("killed");
      else (await connection.catch(() => undefined))?.close();
    } finally {
      // Deno loads its timers when they are first named, which takes a quarter of a second under emulation.
      if (deadline !== undefined) clearTimeout(deadline);
    }
    await this.#host.send({
      t: "ExecExited",
      id,
      exit_code,
      truncated: this.#truncated,
      duration_ms: performance.now() - started,
      error,
    });
    channel?.close();
  }

  /** SIGTERM to the program and everything in its session, SIGKILL after {@linkcode GRACE_MS}. */
  end(why: "timed out" | "killed"): void {
    if (!this.#child || this.#ended) return;
    this.#ended = why;
    const { pid } = this.#child;
    signal(-pid, "SIGTERM");
    const killer = setTimeout(() => signal(-pid, "SIGKILL"), GRACE_MS);
    this.#child.status.finally(() => {
      clearTimeout(killer);
      // What it left behind in its session would hold its pipes open for ever.
      signal(-pid, "SIGKILL");
    });
  }

  #spawn(): Deno.ChildProcess {
    const { argv: [program, ...args], cwd = DEFAULT_CWD, env, stdin } = this.#request;
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
        let frame = await channel.next() as StreamFrame | null;
        frame && !frame.end;
        frame = await channel.next() as StreamFrame | null
      ) {
        if (frame.data) await writer.write(Uint8Array.fromBase64(frame.data));
      }
      await writer.close();
    } catch {
      // The program closed its stdin, or the host went away: both end on their own.
    }
  }

  /** Sends a stream until the limit, then reads on without sending, so that the program can finish. */
  async #pump(
    channel: FrameChannel,
    stream: "stdout" | "stderr",
    from: ReadableStream<Uint8Array>,
  ): Promise<void> {
    let left = this.#request.limit ?? Infinity;
    for await (const chunk of from) {
      if (chunk.length > left) this.#truncated = true;
      const kept = chunk.length > left ? chunk.subarray(0, left) : chunk;
      left -= kept.length;
      if (kept.length > 0) await channel.send({ stream, data: kept.toBase64() } satisfies StreamFrame);
    }
  }
}

/** Why a program could not be started, in words that do not need Deno to be known. */
function reason(cause: unknown): string {
  if (cause instanceof Deno.errors.NotFound) return "it, or the folder to run it in, was not found";
  if (cause instanceof Deno.errors.PermissionDenied) return "it is not executable";
  return cause instanceof Error ? cause.message : String(cause);
}

function signal(pid: number, name: Deno.Signal): void {
  try {
    Deno.kill(pid, name);
  } catch {
    // gone already
  }
}
