/** Runs commands, or prints them: a dry run shows each, and starts none. */

/** A command and its place. */
export interface Command {
  argv: string[];
  cwd?: string;
  env?: Record<string, string>;
  /** time limit in `ms` */
  limitMs?: number;
}

export class Runner {
  constructor(readonly isDry: boolean, readonly say: (line: string) => void) {}

  /** Runs a command; its output goes to this program's. @throws {Error} it failed, or took too long */
  async run(command: Command): Promise<void> {
    this.say(`  $ ${shown(command)}`);
    if (!this.isDry) await this.#start(command, "inherit");
  }

  /** Standard output of a command; in a dry run it is printed, and the answer is empty. */
  async read(command: Command): Promise<string> {
    this.say(`  $ ${shown(command)}`);
    return this.isDry ? "" : await this.#start(command, "piped");
  }

  /** Tests whether a command succeeds. */
  async succeeds(command: Command): Promise<boolean> {
    this.say(`  $ ${shown(command)}`);
    if (this.isDry) return true;
    return await this.#start(command, "piped").then(() => true, () => false);
  }

  async #start({ argv: [program, ...args], cwd, env, limitMs }: Command, stdout: "inherit" | "piped") {
    const signal = limitMs === undefined ? undefined : AbortSignal.timeout(limitMs);
    const child = new Deno.Command(program, {
      args,
      cwd,
      env,
      signal,
      stdin: "null",
      stdout,
      stderr: "inherit",
    })
      .spawn();
    const output = stdout === "piped" ? await new Response(child.stdout).text() : "";
    const { success, code } = await child.status;
    if (success) return output;
    const late = signal?.aborted ? ` after ${limitMs! / 60_000} minutes` : "";
    throw new Error(`${program} ${args[0] ?? ""} failed${late}: exit code ${code}`);
  }
}

/** A command as a shell would take it. */
export function shown({ argv, cwd, env = {} }: Command): string {
  const words = [
    ...Object.entries(env).map(([name, value]) => `${name}=${quoted(value)}`),
    ...argv.map(quoted),
  ];
  return `${cwd === undefined ? "" : `cd ${quoted(cwd)} && `}${words.join(" ")}`;
}

function quoted(word: string): string {
  return /^[\w./:=@%+,-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`;
}
