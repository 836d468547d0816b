import { SbxError } from "../base/error/mod.ts";

/** How a tool is run. */
export interface RunOptions {
  /** what it is for, as the start of an error message: "downloading the kernel" */
  doing: string;
  /** more environment than this process has */
  env?: Record<string, string>;
  cwd?: string;
  /** bytes of its standard input; without them it has this process's own, so that sudo can ask for a password */
  input?: Uint8Array;
  /** ends the tool */
  signal?: AbortSignal;
  hint?: string;
}

/**
 * Runs a tool and answers what it printed.
 *
 * @throws {SbxError} `image.tool_failed` with the first line in which the tool said why, `image.interrupted`
 */
export async function run(command: string[], options: RunOptions): Promise<Uint8Array> {
  const { doing, env, cwd, input, signal, hint } = options;
  interrupted(signal);
  const child = new Deno.Command(command[0], {
    args: command.slice(1),
    env: { LC_ALL: "C.UTF-8", ...env },
    cwd,
    signal,
    stdin: input ? "piped" : "inherit",
    stdout: "piped",
    stderr: "piped",
  }).spawn();
  if (input) {
    const writer = child.stdin.getWriter();
    // A tool that ends early closes its input; its exit code says why.
    writer.write(input).then(() => writer.close()).catch(() => {});
  }
  const { success, code, stdout, stderr } = await child.output();
  interrupted(signal);
  if (success) return stdout;
  const said = new TextDecoder().decode(stderr).trimEnd();
  const lines = said.split("\n");
  const why = lines.find((line) => /^E: |error(?! code)|fail|cannot|unable/i.test(line)) ?? lines.at(-1) ??
    "";
  throw new SbxError(
    "image.tool_failed",
    `${doing} failed: ${command[0]} exited with ${code}${why && `, saying: ${why.trim().slice(0, 300)}`}`,
    { cause: said, hint },
  );
}

/** What a tool printed, as text. */
export async function runText(command: string[], options: RunOptions): Promise<string> {
  return new TextDecoder().decode(await run(command, options));
}

/** @throws {SbxError} `image.interrupted` once `signal` is aborted */
export function interrupted(signal?: AbortSignal): void {
  if (signal?.aborted) {
    throw new SbxError("image.interrupted", "the image build was interrupted; nothing of it is left");
  }
}
