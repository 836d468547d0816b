import { SbxError } from "./error.ts";
import type { Answer } from "./http.ts";
import type { ProgramLimits, ReachedLimit } from "./shapes.ts";
import type { WebSocketClient } from "./websocket.ts";

/** The end of a program. */
export interface ExecResult {
  stdout: string;
  stderr: string;
  exitCode: number;
  /** a stream exceeded 10 MiB and was cut; callbacks get all of it */
  truncated: boolean;
  durationMs: number;
  /** event of the program in the VM's record */
  eventId: string;
  /** limits that it has reached */
  limitsReached: ReachedLimit[];
}

/** How a program runs. */
export interface ProgramOptions {
  cwd?: string;
  /** user of the guest, by name or number, and the group after a colon */
  user?: string;
  env?: Record<string, string>;
  /** seconds after which it ends with exit code 124 */
  timeout?: number;
  /** of this program, beside its VM's */
  limits?: ProgramLimits;
  /** ends the program */
  signal?: AbortSignal;
}

export interface ExecOptions extends ProgramOptions {
  stdin?: string | Uint8Array;
  /** gets each piece of output as it comes; one that throws ends the program */
  onStdout?: (bytes: Uint8Array) => void | Promise<void>;
  onStderr?: (bytes: Uint8Array) => void | Promise<void>;
  /** throw {@linkcode ProgramError} for another exit code than 0 */
  check?: boolean;
}

/** One piece of a program's output. */
export interface Output {
  stream: "stdout" | "stderr";
  data: Uint8Array;
}

/** Most `bytes` of a stream that a result keeps, as in the API. */
const KEPT_MAX = 10 * 1024 * 1024;

/** Body of a request for a program. */
export function programBody(
  command: string | string[],
  { cwd, user, env, timeout, limits }: ProgramOptions,
): Record<string, unknown> {
  return { command, cwd, user, env, timeout_secs: timeout, limits };
}

/** One server-sent event. */
interface ServerEvent {
  event: string;
  // deno-lint-ignore no-explicit-any
  data: any;
}

/** Server-sent events of a body, whose data are JSON. */
async function* serverEvents(body: AsyncIterable<Uint8Array>): AsyncGenerator<ServerEvent> {
  const decoder = new TextDecoder();
  let rest = "";
  let event = "message";
  let data: string[] = [];
  for await (const chunk of body) {
    rest += decoder.decode(chunk, { stream: true });
    const lines = rest.split("\n");
    rest = lines.pop()!;
    for (const line of lines) {
      if (line === "") {
        if (data.length > 0) yield { event, data: JSON.parse(data.join("\n")) };
        event = "message";
        data = [];
      } else if (line.startsWith("event:")) event = line.slice(6).trim();
      else if (line.startsWith("data:")) data.push(line.slice(5).trimStart());
    }
  }
}

/** Reads the streamed answer of a program to its end. */
export async function readProgram({ body }: Answer, options: ExecOptions): Promise<ExecResult> {
  const kept = { stdout: new Kept(), stderr: new Kept() };
  // An error of a callback is the caller's own.
  let own: { error: unknown } | undefined;
  const give = async (stream: "stdout" | "stderr", bytes: Uint8Array) => {
    try {
      await (stream === "stdout" ? options.onStdout : options.onStderr)?.(bytes);
    } catch (error) {
      own = { error };
      throw error;
    }
  };
  try {
    for await (const { event, data } of serverEvents(body)) {
      if (event === "stdout" || event === "stderr") {
        const bytes = new Uint8Array(Buffer.from(data.data, "base64"));
        kept[event].add(bytes);
        await give(event, bytes);
      } else if (event === "error") throw new SbxError(data.code, data.error, { hint: data.hint });
      else if (event === "exit") {
        return {
          stdout: kept.stdout.text(),
          stderr: kept.stderr.text(),
          exitCode: data.exit_code,
          truncated: kept.stdout.cut || kept.stderr.cut || data.truncated === true,
          durationMs: data.duration_ms,
          eventId: data.event_id,
          limitsReached: data.limits_reached ?? [],
        };
      }
    }
  } catch (cause) {
    if (own || cause instanceof SbxError || options.signal?.aborted) throw cause;
    throw gone(cause);
  }
  throw gone();
}

function gone(cause?: unknown): SbxError {
  return new SbxError("service.gone", "the service went away while the program ran", {
    cause,
    hint: "the program was ended, its VM goes on: run the program again, or as a job",
  });
}

class Kept {
  readonly #chunks: Uint8Array[] = [];
  #size = 0;
  cut = false;

  add(bytes: Uint8Array): void {
    const room = KEPT_MAX - this.#size;
    if (bytes.length > room) this.cut = true;
    if (room <= 0) return;
    const part = bytes.subarray(0, room);
    this.#chunks.push(part);
    this.#size += part.length;
  }

  text(): string {
    return new TextDecoder().decode(Buffer.concat(this.#chunks));
  }
}

/** Most `bytes` under way in each direction (docs/design/contracts/02-http.md §2, "Program socket"). */
const WINDOW = 1024 * 1024;
const STREAMS = ["", "stdout", "stderr"] as const;

/** A program whose input is written while it runs. Its output must be read: it waits for its reader. */
export class Program implements AsyncIterable<Output>, AsyncDisposable {
  readonly #socket: WebSocketClient;
  #untaken = 0;
  #room = Promise.resolve();
  #makeRoom = () => {};
  #exit: Omit<ExecResult, "stdout" | "stderr"> | undefined;
  #error: SbxError | undefined;

  constructor(socket: WebSocketClient) {
    this.#socket = socket;
  }

  /** The end of the program, once its output was read. */
  get exit(): Omit<ExecResult, "stdout" | "stderr"> | undefined {
    return this.#exit;
  }

  /** Writes to its standard input. @returns when there is room for more */
  async write(input: string | Uint8Array): Promise<void> {
    const bytes = typeof input === "string" ? new TextEncoder().encode(input) : input;
    for (let at = 0; at < bytes.length; at += WINDOW / 4) {
      const piece = bytes.subarray(at, at + WINDOW / 4);
      while (this.#untaken + piece.length > WINDOW) {
        this.#room = new Promise((resolve) => this.#makeRoom = resolve);
        await this.#room;
        if (this.#exit || this.#error || this.#socket.end) return;
      }
      this.#untaken += piece.length;
      await this.#trySend(piece);
    }
  }

  /** Ends its standard input. */
  async closeInput(): Promise<void> {
    await this.#trySend(JSON.stringify({ end: true }));
  }

  /** A program that has ended takes nothing more; the reader gets its end. */
  async #trySend(message: string | Uint8Array): Promise<void> {
    await this.#socket.send(message).catch(() => {});
  }

  /** Its output, piece by piece, to its end. @throws {SbxError} */
  async *[Symbol.asyncIterator](): AsyncGenerator<Output> {
    try {
      for await (const message of this.#socket) {
        if (typeof message !== "string") {
          const stream = STREAMS[message[0]!] || "stdout";
          yield { stream: stream as Output["stream"], data: message.subarray(1) };
          await this.#trySend(JSON.stringify({ taken: message.length - 1 }));
          continue;
        }
        const { taken, exit, error } = JSON.parse(message);
        if (taken !== undefined) {
          this.#untaken -= taken;
          this.#makeRoom();
        } else if (exit) {
          this.#exit = {
            exitCode: exit.exit_code,
            truncated: exit.truncated,
            durationMs: exit.duration_ms,
            eventId: exit.event_id,
            limitsReached: exit.limits_reached ?? [],
          };
          return;
        } else if (error) throw this.#error = new SbxError(error.code, error.error, { hint: error.hint });
      }
      throw this.#error = gone();
    } finally {
      this.#makeRoom();
      this.kill();
    }
  }

  /** Ends the program. */
  kill(): void {
    this.#socket.close();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.kill();
    await Promise.resolve();
  }
}
