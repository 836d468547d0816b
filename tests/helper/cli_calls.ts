/**
 * Runs calls of sbx and sbx-admin one after another in one process, for tests that make many of them: a
 * process of its own takes each a third of a second.
 *
 *     deno run -A tests/helper/cli_calls.ts CALLS.json
 *
 * CALLS.json is an array of arrays, each a program and its arguments. Prints one JSON line a call: its exit
 * code, standard output and standard error. A call that has not ended after `LIMIT_MS` has the code -1.
 */
import { join } from "node:path";
import { runChild } from "./child.ts";
import { fromRoot } from "./repo.ts";

const LIMIT_MS = 20_000;

/** The end of one call. */
export interface CallResult {
  code: number;
  stdout: string;
  stderr: string;
}

/**
 * Makes the calls in a process of their own. @param env all of its variables, but the ones that Deno needs
 */
export async function runCalls(calls: string[][], env: Record<string, string>): Promise<CallResult[]> {
  const dir = await Deno.makeTempDir();
  try {
    await Deno.writeTextFile(join(dir, "calls.json"), JSON.stringify(calls));
    const args = ["run", "-A", "--no-check", "--quiet", "--config", fromRoot("deno.json")];
    const { stdout, stderr } = await runChild(Deno.execPath(), {
      args: [...args, fromRoot("tests/helper/cli_calls.ts"), join(dir, "calls.json")],
      cwd: dir,
      clearEnv: true,
      env: { HOME: dir, DENO_DIR: fromRoot(".deno/cache"), NO_COLOR: "1", ...env },
    }, 600_000);
    const decoder = new TextDecoder();
    const lines = decoder.decode(stdout).split("\n").filter((line) => line !== "");
    if (lines.length === calls.length) return lines.map((line) => JSON.parse(line));
    throw new Error(`${lines.length} of ${calls.length} calls ended: ${decoder.decode(stderr)}`);
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
}

if (import.meta.main) {
  const programs: Record<string, { main(argv: string[]): Promise<number> }> = {
    "sbx": await import("../../cmd/sbx/main.ts"),
    "sbx-admin": await import("../../cmd/admin/main.ts"),
  };
  const write = Deno.stdout.write.bind(Deno.stdout);
  let said = { stdout: "", stderr: "" };
  const take = (stream: keyof typeof said) => (bytes: Uint8Array) => {
    said[stream] += new TextDecoder().decode(bytes);
    return bytes.length;
  };
  console.error = (...words: unknown[]) => void (said.stderr += `${words.join(" ")}\n`);
  console.log = (...words: unknown[]) => void (said.stdout += `${words.join(" ")}\n`);
  for (const stream of ["stdout", "stderr"] as const) {
    const writeSync = take(stream);
    const write = (bytes: Uint8Array) => Promise.resolve(writeSync(bytes));
    Object.assign(Deno[stream], { writeSync, write });
  }
  // A command must not end the process of the others.
  Deno.exit = (code) => {
    throw new Error(`Deno.exit(${code})`);
  };
  for (const [program, ...argv] of JSON.parse(await Deno.readTextFile(Deno.args[0]))) {
    said = { stdout: "", stderr: "" };
    let timer;
    const late = new Promise<number>((resolve) => timer = setTimeout(() => resolve(-1), LIMIT_MS));
    const code = await Promise.race([programs[program].main(argv), late]).catch((error) => {
      said.stderr += `${Deno.inspect(error)}\n`;
      return -2;
    });
    clearTimeout(timer);
    await write(new TextEncoder().encode(`${JSON.stringify({ code, ...said })}\n`));
  }
}
