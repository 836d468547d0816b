/** One context of E2B's code interpreter: a program of the guest that runs cells and keeps their state. */
import { z } from "zod";
import { asSbxError, ignore, SbxError } from "../../../../lib/base/error/mod.ts";
import { backgroundTimeout, timeLimit } from "../../../../lib/base/time/mod.ts";
import { startPiped } from "../../vm/program_pipe.ts";
import type { Guest } from "../guest.ts";
import { NODE_PROGRAM, NODE_STARTER } from "./node.ts";
import { PYTHON_PROGRAM, PYTHON_STARTER } from "./python.ts";

const PYTHON = { command: ["python3", "-c", PYTHON_STARTER], program: PYTHON_PROGRAM, needs: "python3" };
const NODE = { command: NODE_STARTER, program: NODE_PROGRAM, needs: "Node 24" };
/** Languages of cells, by the names that E2B's client gives them. */
export const LANGUAGES = { python: PYTHON, bash: PYTHON, javascript: NODE, typescript: NODE };
export type Language = keyof typeof LANGUAGES;

/** Characters of one message: a picture, for example. */
const MESSAGE_MAX = 32 * 1024 * 1024;
/** Values of one message: 32 MiB of empty objects would take 700 MB, and seconds of all sandboxes. */
const VALUES_MAX = 2_000_000;
/** Characters of the standard error of a program that does not start. */
const ERRORS_MAX = 2000;
/** Longest time in `ms` that a cell may take to end after it was interrupted. */
const INTERRUPT_MS = timeLimit(5000);

const Ready = z.object({ type: z.literal("ready"), group: z.int().min(2) });
/** A message for the client. */
const Message = z.looseObject({
  type: z.enum(["result", "stdout", "stderr", "error", "number_of_executions"]),
});

const [COMMA, BRACKET, BRACE] = [44, 91, 123];

/** True for a line that may have more values than one message; texts with as many commas count too. */
function hasMany(line: string): boolean {
  let count = 0;
  for (let at = 0; at < line.length && count <= VALUES_MAX; at++) {
    const unit = line.charCodeAt(at);
    if (unit === COMMA || unit === BRACKET || unit === BRACE) count++;
  }
  return count > VALUES_MAX;
}

/** A message of the guest in one line; other lines have none. */
export function parseMessage(line: string): z.infer<typeof Message> | "end" | undefined {
  if (line.length > VALUES_MAX && hasMany(line)) {
    return { type: "stderr", text: `sbx does not show a result of more than ${VALUES_MAX} values\n` };
  }
  let json: unknown;
  try {
    json = JSON.parse(line);
  } catch {
    return undefined;
  }
  if ((json as { type?: unknown } | null)?.type === "end_of_execution") return "end";
  return Message.safeParse(json).data;
}

export interface Cell {
  code: string;
  env: Record<string, string>;
}

/** A cell that runs. */
interface Running {
  /** @returns when the client takes more */
  show(message: Record<string, unknown>): Promise<void>;
  end(): void;
}

/** The program of one context, from its start to its end. */
export class Kernel {
  readonly #guest: Guest;
  readonly #language: Language;
  readonly #ready = Promise.withResolvers<void>();
  readonly #input = new TransformStream<Uint8Array<ArrayBuffer>, Uint8Array<ArrayBuffer>>();
  readonly #writer = this.#input.writable.getWriter();
  readonly #decoder = new TextDecoder();
  /** pieces of a line whose end has not come */
  #pieces: string[] = [];
  #size = 0;
  #errors = "";
  #group?: number;
  #close = () => {};
  #running?: Running;
  isOver = false;

  private constructor(guest: Guest, language: Language) {
    this.#guest = guest;
    this.#language = language;
  }

  /**
   * @param end aborts to end the program
   * @throws {SbxError} `kernel.missing`: the image cannot run the language
   */
  static async start(guest: Guest, language: Language, cwd: string, end: AbortSignal): Promise<Kernel> {
    const kernel = new Kernel(guest, language);
    const { command, program, needs } = LANGUAGES[language];
    const pipe = await startPiped(guest.client, guest.sandbox.vm, { command, cwd, user: "root" }, {
      stdout: (bytes) => kernel.#read(bytes),
      stderr: (bytes) => kernel.#readErrors(bytes),
    });
    kernel.#close = () => pipe.close();
    end.addEventListener("abort", kernel.#close, { once: true });
    if (end.aborted) kernel.#close();
    void pipe.sendInput(kernel.#input.readable);
    pipe.exit.then(
      ({ exit_code }) => kernel.#over(`exit code ${exit_code}`),
      (cause) => kernel.#over(asSbxError(cause, "a kernel").message),
    );
    await kernel.#send(program);
    await kernel.#ready.promise.catch((cause) => {
      const reason = kernel.#errors.trim() || (cause as Error).message;
      throw new SbxError("kernel.missing", `this sandbox cannot run ${language}: ${reason}`, {
        cause,
        hint: `its image needs ${needs}, and its profile must allow to start it`,
      });
    });
    return kernel;
  }

  /**
   * Runs one cell, after the one before it has ended.
   *
   * @param signal aborts when the client has left: the cell is interrupted, and a
   * program that goes on all the same is ended
   */
  async run({ code, env }: Cell, show: Running["show"], signal: AbortSignal): Promise<void> {
    const ended = Promise.withResolvers<void>();
    this.#running = { show, end: ended.resolve };
    const interrupt = () => void this.#interrupt(ended.promise);
    signal.addEventListener("abort", interrupt, { once: true });
    try {
      if (this.isOver) this.#running.end();
      else await this.#send({ code, env, language: this.#language });
      if (signal.aborted) interrupt();
      await ended.promise;
    } finally {
      signal.removeEventListener("abort", interrupt);
      this.#running = undefined;
    }
  }

  async #interrupt(ended: Promise<void>): Promise<void> {
    const timer = backgroundTimeout(() => this.#close(), INTERRUPT_MS);
    try {
      await this.#guest.run(`kill -s INT -- "-$1"`, [String(this.#group)]);
    } catch {
      this.#close();
    }
    await ended;
    clearTimeout(timer);
  }

  async #send(value: unknown): Promise<void> {
    await this.#writer.write(new TextEncoder().encode(JSON.stringify(value) + "\n")).catch(
      ignore("the program has ended, which is reported elsewhere"),
    );
  }

  async #read(bytes: Uint8Array): Promise<void> {
    const text = this.#decoder.decode(bytes, { stream: true });
    const end = text.lastIndexOf("\n");
    if (end < 0) {
      this.#size += text.length;
      this.#pieces.push(text);
      if (this.#size > MESSAGE_MAX) this.#close();
      return;
    }
    const lines = (this.#pieces.join("") + text.slice(0, end)).split("\n");
    this.#pieces = [text.slice(end + 1)];
    this.#size = text.length - end - 1;
    for (const line of lines) await this.#hear(line);
  }

  async #hear(line: string): Promise<void> {
    if (this.#group === undefined) {
      const { data } = Ready.safeParse(jsonOf(line));
      if (!data) return this.#close();
      this.#group = data.group;
      this.#ready.resolve();
      return;
    }
    const message = parseMessage(line);
    if (message === "end") this.#running?.end();
    // Output of a callback between cells has no cell that would show it.
    else if (message) await this.#running?.show(message);
  }

  /** Standard error of programs, past their kernel, and the kernel's last words. */
  async #readErrors(bytes: Uint8Array): Promise<void> {
    const text = new TextDecoder().decode(bytes);
    if (this.#group === undefined) this.#errors = (this.#errors + text).slice(0, ERRORS_MAX);
    else await this.#running?.show({ type: "stderr", text });
  }

  #over(reason: string): void {
    this.isOver = true;
    this.#ready.reject(new Error(reason));
    this.#ready.promise.catch(ignore("its caller has it, or it was ready"));
    const running = this.#running;
    if (!running) return;
    const value = `the program of the context has ended (${reason}); its variables are gone`;
    void running.show({ type: "error", name: "KernelDied", value, traceback: value }).finally(running.end);
  }
}

function jsonOf(line: string): unknown {
  try {
    return JSON.parse(line);
  } catch {
    return undefined;
  }
}
