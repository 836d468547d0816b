/** A program on a terminal as a person has it: its screen, and keys. */
import xterm from "@xterm/headless";
import { limitChild } from "./child.ts";
import { eventually } from "./sbx.ts";

const SIZE = { cols: 120, rows: 40 };
/** Time between two keys of a person, in `ms`: what comes at once is a paste. */
const KEY_MS = 60;
/** Time limit of the program, in `ms`. */
const LIMIT_MS = 600_000;

export class Pty implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #keys: WritableStreamDefaultWriter<Uint8Array>;
  readonly #terminal = new xterm.Terminal({ ...SIZE, scrollback: 5000, allowProposedApi: true });
  readonly #over: Promise<void>;
  #isOver = false;

  /** @param argv a program and its arguments, which have no quotes */
  constructor(argv: readonly string[], options: { cwd: string; env: Record<string, string> }) {
    const line = `stty rows ${SIZE.rows} cols ${SIZE.cols}; exec ${
      argv.map((word) => `'${word}'`).join(" ")
    }`;
    this.#child = limitChild(
      new Deno.Command("script", {
        args: ["-qefc", line, "/dev/null"],
        cwd: options.cwd,
        env: { ...options.env, TERM: "xterm-256color", COLORTERM: "truecolor" },
        stdin: "piped",
        stdout: "piped",
        stderr: "null",
      }).spawn(),
      LIMIT_MS,
    );
    this.#keys = this.#child.stdin.getWriter();
    // Programs ask a terminal for its cursor, its colours and its abilities, and wait for the answer.
    this.#terminal.onData((text) => this.press(text));
    this.#over = this.#show();
  }

  async #show(): Promise<void> {
    // The terminal draws later than it takes: a program is over when its last words are on the screen.
    for await (const bytes of this.#child.stdout) {
      await new Promise<void>((drawn) => this.#terminal.write(bytes, drawn));
    }
    this.#isOver = true;
  }

  /** The lines of the screen, and those that have scrolled away. */
  get text(): string {
    const { active } = this.#terminal.buffer;
    return Array.from({ length: active.length }, (_, at) => active.getLine(at)!.translateToString(true)).join(
      "\n",
    );
  }

  get isOver(): boolean {
    return this.#isOver;
  }

  press(keys: string): void {
    this.#keys.write(new TextEncoder().encode(keys)).catch(() => {});
  }

  /** Presses one key after the other, as a person does. */
  async type(text: string): Promise<void> {
    for (const key of text) {
      this.press(key);
      await new Promise((resolve) => setTimeout(resolve, KEY_MS));
    }
  }

  /** Waits until the screen has this. @throws {Error} the program has ended, or never shows it */
  async shows(what: string, pattern: RegExp): Promise<void> {
    await eventually(what, () => pattern.test(this.text) || this.#isOver, 300).catch((error) => {
      throw new Error(`${error.message}:\n${this.text}`);
    });
    if (!pattern.test(this.text)) throw new Error(`the program has ended before ${what}:\n${this.text}`);
  }

  /** Waits for its end. @returns its exit code */
  async ended(): Promise<number> {
    await this.#over;
    return (await this.#child.status).code;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    try {
      this.#child.kill("SIGKILL");
    } catch {
      // It has ended.
    }
    await this.#keys.close().catch(() => {});
    await this.#over.catch(() => {});
    await this.#child.status;
  }
}
