/** Programs that E2B clients start in a sandbox: envd's service `process.Process`. */
import { Code, ConnectError, type HandlerContext, type ServiceImpl } from "@connectrpc/connect";
import type { MessageInitShape } from "@bufbuild/protobuf";
import { segment } from "../../../lib/client/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { startPiped } from "../vm/program_pipe.ts";
import {
  type Process as ProcessService,
  type ProcessConfig,
  ProcessConfigSchema,
  type ProcessEventSchema,
  type ProcessSelector,
  type StartRequest,
} from "./generated/process_pb.ts";
import { create } from "@bufbuild/protobuf";
import { connectError, type Guest, userOf } from "./guest.ts";

/** `bytes` of output that wait for one client; the program waits with it. */
const QUEUE_MAX = 1024 * 1024;
/**
 * `bytes` of a terminal's output that wait: its program does not wait, and a client
 * that is slower is disconnected.
 */
const TERMINAL_WAITING_MAX = 8 * 1024 * 1024;
/** Programs of one sandbox at a time. */
const PROCESSES_MAX = 1000;
/** `s` between signs of life of a stream, where the client asks for none. */
const KEEPALIVE_S = 50;
/** Longest time of a timer in `ms`. */
const TIMER_MAX_MS = 2 ** 31 - 1;

type Event = MessageInitShape<typeof ProcessEventSchema>["event"];

/** Output for one client. Its reader's pace is the program's. */
class Listener {
  readonly #events: Event[] = [];
  #size = 0;
  #news = Promise.withResolvers<void>();
  #room = Promise.withResolvers<void>();
  #isClosed = false;
  #failure?: ConnectError;

  get isFull(): boolean {
    return this.#size > QUEUE_MAX;
  }

  /** @returns when there is room for more */
  async push(event: Event, size: number): Promise<void> {
    if (this.#isClosed) return;
    this.#events.push(event);
    this.#size += size;
    this.#news.resolve();
    while (this.isFull && !this.#isClosed) await this.#room.promise;
  }

  /** Ends it without what waits. */
  fail(failure: ConnectError): void {
    this.#failure = failure;
    this.#events.length = 0;
    this.close();
  }

  close(): void {
    this.#isClosed = true;
    this.#news.resolve();
    this.#room.resolve();
  }

  /**
   * @returns the next event; `undefined` after `ms` without one
   * @throws {ConnectError} as {@linkcode fail} was called with
   */
  async next(ms: number, signal: AbortSignal): Promise<Event | undefined> {
    if (this.#events.length === 0 && !this.#failure) {
      this.#news = Promise.withResolvers();
      const timer = setTimeout(this.#news.resolve, ms);
      signal.addEventListener("abort", this.#news.resolve as () => void, { once: true });
      if (!signal.aborted) await this.#news.promise;
      signal.removeEventListener("abort", this.#news.resolve as () => void);
      clearTimeout(timer);
    }
    if (this.#failure) throw this.#failure;
    const event = this.#events.shift();
    if (event?.case === "data") {
      this.#size -= event.value?.output?.value?.length ?? 0;
      this.#room.resolve();
      this.#room = Promise.withResolvers();
    }
    return event;
  }
}

/** A running program of a sandbox, with or without a terminal. */
interface Running {
  /** @throws {ConnectError} it takes none */
  write(kind: "stdin" | "pty", bytes: Uint8Array): Promise<void>;
  closeInput(): Promise<void>;
  resize(cols: number, rows: number): void;
  kill(): void;
  exit: Promise<number>;
}

class SandboxProcess {
  readonly listeners = new Set<Listener>();
  running!: Running;
  end?: Event;
  signal?: "killed" | "terminated";

  constructor(readonly pid: number, readonly tag: string | undefined, readonly config: ProcessConfig) {}

  async output(kind: "stdout" | "stderr" | "pty", bytes: Uint8Array): Promise<void> {
    const event: Event = { case: "data", value: { output: { case: kind, value: bytes } } };
    await Promise.all([...this.listeners].map((listener) => listener.push(event, bytes.length)));
  }

  /** Disconnects the clients that do not take its output. */
  leaveSlow(): void {
    const failure = new ConnectError("the client takes output too slowly", Code.ResourceExhausted);
    for (const listener of this.listeners) if (listener.isFull) listener.fail(failure);
  }

  kill(signal: "killed" | "terminated"): void {
    this.signal = signal;
    this.running.kill();
  }

  /** Its exit as E2B shows it. */
  async watch(): Promise<void> {
    let value: { exitCode: number; exited: boolean; status: string; error?: string };
    try {
      const exitCode = await this.running.exit;
      value = { exitCode, exited: true, status: `exit status ${exitCode}` };
      if (exitCode !== 0) value.error = value.status;
    } catch (cause) {
      const error = this.signal ? `signal: ${this.signal}` : connectError(cause).rawMessage;
      value = { exitCode: -1, exited: false, status: error, error };
    }
    this.end = { case: "end", value };
    for (const listener of this.listeners) void listener.push(this.end, 0);
  }
}

/** The programs of one sandbox. Their pids are numbers of this table, by which E2B's client names them. */
export class Processes {
  readonly #guest: Guest;
  readonly #all = new Map<number, SandboxProcess>();
  #last = 0;
  /** programs that are about to start */
  #starting = 0;

  constructor(guest: Guest) {
    this.#guest = guest;
  }

  /** Ends all of them. */
  close(): void {
    for (const process of this.#all.values()) if (!process.end) process.kill("killed");
  }

  readonly service: ServiceImpl<typeof ProcessService> = {
    list: () => ({
      processes: [...this.#all.values()].filter(({ end }) => !end).map(({ config, pid, tag }) => ({
        config,
        pid,
        tag,
      })),
    }),
    start: (request, context) => this.#start(request, context),
    connect: ({ process }, context) => this.#stream(this.#find(process), context),
    update: ({ process, pty }) => {
      if (pty?.size) this.#find(process).running.resize(pty.size.cols, pty.size.rows);
      return {};
    },
    sendInput: async ({ process, input }) => {
      if (input?.input.case) await this.#find(process).running.write(input.input.case, input.input.value);
      return {};
    },
    streamInput: async (messages) => {
      let process: SandboxProcess | undefined;
      for await (const { event } of messages) {
        if (event.case === "start") process = this.#find(event.value.process);
        else if (event.case === "data" && event.value.input?.input.case) {
          if (!process) throw new ConnectError("input before its process", Code.InvalidArgument);
          await process.running.write(event.value.input.input.case, event.value.input.input.value);
        }
      }
      return {};
    },
    sendSignal: ({ process, signal }) => {
      // SIGTERM and SIGKILL: the guest's agent ends the program and its children.
      this.#find(process).kill(signal === 15 ? "terminated" : "killed");
      return {};
    },
    closeStdin: async ({ process }) => {
      await this.#find(process).running.closeInput();
      return {};
    },
  };

  async *#start(request: StartRequest, context: HandlerContext) {
    const process = await this.#begin(request, userOf(context.requestHeader));
    // By a timer of its own: the client closes the connection at about the same moment.
    const limitMs = timeLimitOf(context.requestHeader);
    const timer = limitMs === undefined ? undefined : setTimeout(() => process.kill("killed"), limitMs);
    void process.watch().then(() => {
      clearTimeout(timer);
      this.#all.delete(process.pid);
    });
    yield* this.#stream(process, context);
  }

  async #begin(request: StartRequest, name?: string): Promise<SandboxProcess> {
    if (this.#all.size + this.#starting >= PROCESSES_MAX) {
      throw new ConnectError(`${PROCESSES_MAX} programs are running`, Code.ResourceExhausted);
    }
    this.#starting++;
    try {
      return await this.#run(request, name);
    } finally {
      this.#starting--;
    }
  }

  async #run(request: StartRequest, name?: string): Promise<SandboxProcess> {
    const config = request.process ?? create(ProcessConfigSchema, {});
    if (config.cmd === "") throw new ConnectError("a program has no name", Code.InvalidArgument);
    const user = await this.#guest.user(name);
    const cwd = config.cwd === undefined || config.cwd === ""
      ? user.home
      : await this.#guest.resolve(config.cwd, user.name);
    const process = new SandboxProcess(++this.#last, request.tag, config);
    try {
      process.running = request.pty
        ? await this.#terminal(process, { user: user.name, cwd, size: request.pty.size })
        : await this.#program(process, { user: user.name, cwd, stdin: request.stdin !== false });
    } catch (cause) {
      throw connectError(cause);
    }
    this.#all.set(process.pid, process);
    return process;
  }

  /** Output of a program until its end. */
  async *#stream(process: SandboxProcess, { signal, requestHeader }: HandlerContext) {
    const listener = new Listener();
    process.listeners.add(listener);
    const asked = Number(requestHeader.get("keepalive-ping-interval"));
    const everyMs = 1000 * (asked >= 1 && asked <= 3600 ? asked : KEEPALIVE_S);
    try {
      yield { event: { event: { case: "start" as const, value: { pid: process.pid } } } };
      let event: Event | undefined = process.end;
      while (event?.case !== "end") {
        event = await listener.next(everyMs, signal);
        if (signal.aborted) {
          const { reason } = signal;
          const isLate = reason instanceof ConnectError && reason.code === Code.DeadlineExceeded;
          throw isLate ? reason : new ConnectError("the client has left", Code.Canceled);
        }
        yield { event: { event: event ?? { case: "keepalive" as const, value: {} } } };
      }
      if (process.end === event) return;
      yield { event: { event } };
    } finally {
      process.listeners.delete(listener);
      listener.close();
    }
  }

  /** @throws {ConnectError} `not_found` */
  #find(process: ProcessSelector | undefined): SandboxProcess {
    const { selector } = process ?? {};
    const found = selector?.case === "tag"
      ? this.#all.values().find(({ tag, end }) => tag === selector.value && !end)
      : this.#all.get(selector?.case === "pid" ? selector.value : 0);
    if (found && !found.end) return found;
    throw new ConnectError(`process ${selector?.value ?? "without a pid"} not found`, Code.NotFound);
  }

  async #program(
    process: SandboxProcess,
    { user, cwd, stdin }: { user: string; cwd: string; stdin: boolean },
  ): Promise<Running> {
    const { cmd, args, envs } = process.config;
    const { client, sandbox } = this.#guest;
    const request = { command: [cmd, ...args], cwd, user, env: envs };
    const pipe = await startPiped(client, sandbox.vm, request, {
      stdout: (bytes) => process.output("stdout", bytes),
      stderr: (bytes) => process.output("stderr", bytes),
    });
    const input = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
    const writer = input.writable.getWriter();
    void pipe.sendInput(input.readable);
    let takesInput = stdin;
    if (!stdin) void writer.close().catch(() => {/* it has ended */});
    return {
      exit: pipe.exit.then(({ exit_code }) => exit_code),
      kill: () => pipe.close(),
      resize: () => {
        throw new ConnectError("the program has no terminal", Code.FailedPrecondition);
      },
      write: async (kind, bytes) => {
        if (kind !== "stdin" || !takesInput) {
          throw new ConnectError("the program takes no such input", Code.FailedPrecondition);
        }
        await writer.write(new Uint8Array(bytes));
      },
      closeInput: async () => {
        if (!takesInput) throw new ConnectError("the program's input is closed", Code.FailedPrecondition);
        takesInput = false;
        await writer.close();
      },
    };
  }

  async #terminal(
    process: SandboxProcess,
    { user, cwd, size }: { user: string; cwd: string; size?: { cols: number; rows: number } },
  ): Promise<Running> {
    const { client, sandbox } = this.#guest;
    // Reports errors that a rejected WebSocket would hide.
    await this.#guest.status();
    const mark = crypto.randomUUID();
    const { envs } = process.config;
    const variables = Object.keys(envs).length > 0 ? await this.#guest.variables(envs, user) : undefined;
    const argv = JSON.stringify(terminalProgram(process.config, { user, cwd, mark, variables }));
    const socket = client.socket(`/terminal/${segment(sandbox.vm)}`, { argv });
    socket.binaryType = "arraybuffer";
    const exit = Promise.withResolvers<number>();
    const opened = Promise.withResolvers<void>();
    const tail = new ExitMark(mark);
    let written: Promise<void> = Promise.resolve();
    let waiting = 0;
    const resize = (cols: number, rows: number) => socket.send(JSON.stringify({ cols, rows }));
    socket.onopen = () => {
      if (size) resize(size.cols, size.rows);
      opened.resolve();
    };
    socket.onmessage = ({ data }) => {
      const bytes = tail.take(new Uint8Array(data));
      if (bytes.length === 0) return;
      waiting += bytes.length;
      if (waiting > TERMINAL_WAITING_MAX) process.leaveSlow();
      written = written.then(async () => {
        await process.output("pty", bytes);
        waiting -= bytes.length;
      });
    };
    socket.onclose = ({ code, reason }) =>
      void written.then(() => {
        opened.reject(new SbxError("terminal.unavailable", reason || "the terminal did not open"));
        if (tail.code !== undefined) exit.resolve(tail.code);
        else exit.reject(new SbxError("process.gone", reason || `the terminal was closed (${code})`));
      });
    socket.onerror = () => {};
    exit.promise.catch(() => {/* its end is an event of its own */});
    await opened.promise.catch(async (error) => {
      // Its program has not read it.
      if (variables !== undefined) await this.#guest.run(`exec rm -f -- "$1"`, [variables], user);
      throw error;
    });
    return {
      exit: exit.promise,
      resize,
      kill: () => socket.close(),
      write: (kind, bytes) => {
        if (kind !== "pty") throw new ConnectError("the program has a terminal", Code.FailedPrecondition);
        socket.send(new Uint8Array(bytes));
        return Promise.resolve();
      },
      closeInput: () => {
        throw new ConnectError("a terminal's input has no end", Code.FailedPrecondition);
      },
    };
  }
}

/** The client's limit for a program, in `ms`. */
function timeLimitOf(headers: Headers): number | undefined {
  const ms = Number(headers.get("connect-timeout-ms") ?? NaN);
  return ms > 0 && ms <= TIMER_MAX_MS ? ms : undefined;
}

/** Program of a terminal: it has the user, folder and variables, and writes its exit code behind the mark. */
export function terminalProgram(
  { cmd, args }: Pick<ProcessConfig, "cmd" | "args">,
  { user, cwd, mark, variables = "" }: { user: string; cwd: string; mark: string; variables?: string },
): string[] {
  const script =
    `cd "$1" || exit 1; shift; "$@"; code=$?; printf '\\033]sbx;${mark};%d\\007' "$code"; exit "$code"`;
  const as = user === "root" ? [] : ["runuser", "-u", user, "--"];
  const start = `[ -z "$1" ] || { . "$1"; rm -f -- "$1"; }; shift; exec "$@"`;
  return ["/bin/sh", "-c", script, "sh", cwd, ...as, "/bin/sh", "-c", start, "sh", variables, cmd, ...args];
}

/** Takes the exit code out of the end of a terminal's output. */
export class ExitMark {
  readonly #pattern: RegExp;
  readonly #begin: string;
  #rest = "";
  code?: number;

  constructor(mark: string) {
    this.#begin = `\x1b]sbx;${mark};`;
    this.#pattern = new RegExp(`\\x1b\\]sbx;${mark};(\\d{1,3})\\x07`);
  }

  /** @returns the bytes that are output; a begin of the mark is held back until it is certain */
  take(bytes: Uint8Array): Uint8Array {
    // A character for each byte, so that none is changed.
    const text = this.#rest + Array.from(bytes, (byte) => String.fromCharCode(byte)).join("");
    const found = this.#pattern.exec(text);
    if (found) this.code = Number(found[1]);
    const shown = text.replace(this.#pattern, "");
    const held = heldBack(shown, this.#begin);
    this.#rest = shown.slice(shown.length - held);
    return Uint8Array.from(shown.slice(0, shown.length - held), (character) => character.charCodeAt(0));
  }
}

/** Characters at the end of the text that may be a part of the mark. */
function heldBack(text: string, begin: string): number {
  const at = text.lastIndexOf("\x1b");
  if (at < 0) return 0;
  const end = text.slice(at);
  const isPart = begin.startsWith(end) || end.startsWith(begin) && /^\d{0,3}$/.test(end.slice(begin.length));
  return isPart ? end.length : 0;
}
