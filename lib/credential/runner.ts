/** Programs of the host that give secrets: bounded in time and output, in a group that ends with them. */
import { Buffer } from "node:buffer";
import process from "node:process";
import { confinedCommand, type Confinement, NOT_CONFINED } from "./confine.ts";
import { SbxError } from "../base/error/mod.ts";

/** Longest run of a program, in `ms`: a person may have to unlock a vault. */
export const RUN_MS = 60_000;
/** Most bytes of its output. */
const OUTPUT_MAX = 64 * 1024;

const CONFINED_HINT =
  "run it by hand to see its message; if it works there, name its files with --may-read " +
  "PATH, and let it use the network with --may-connect";

export function programError(problem: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("credential.program", problem, { hint, ...(cause !== undefined && { cause }) });
}

/**
 * Runs a program in a group of its own, which ends with it, its time or its output. It gets no input and the
 * environment of the service without sbx's own variables; its output is kept in memory alone, and its errors
 * are not read, since they may hold a secret.
 *
 * @param name of the program, for errors
 * @throws {SbxError} `credential.program`
 */
export async function runProgram(
  argv: readonly string[],
  name: string,
  { runMs = RUN_MS, confine }: { runMs?: number; confine?: Confinement } = {},
): Promise<string> {
  const [command, ...args] = confine ? await confined(argv, name, confine) : argv;
  // Takes 15 ms to load, which every process with a broker would pay.
  const { spawn } = await import("node:child_process");
  const variables = Object.entries(Deno.env.toObject()).filter(([variable]) => !variable.startsWith("SBX_"));
  const { promise, resolve, reject } = Promise.withResolvers<string>();
  const child = spawn(command, args, {
    cwd: "/",
    detached: true,
    env: Object.fromEntries(variables),
    stdio: ["ignore", "pipe", "ignore"],
  });
  const chunks: Uint8Array[] = [];
  let size = 0;
  const end = (problem: string) => {
    reject(programError(`${name} ${problem}`, confine ? CONFINED_HINT : "run it by hand to see its message"));
    try {
      if (child.pid !== undefined) process.kill(-child.pid, "SIGKILL");
    } catch {
      // It has ended.
    }
    child.stdout?.destroy();
  };
  const timer = setTimeout(() => end(`did not end within ${Math.round(runMs / 1000)} s`), runMs);
  child.stdout?.on("data", (chunk: Uint8Array) => {
    size += chunk.length;
    if (size > OUTPUT_MAX) end(`wrote more than ${OUTPUT_MAX} bytes`);
    else chunks.push(chunk);
  });
  child.on(
    "error",
    (error: NodeJS.ErrnoException) =>
      end(error.code === "ENOENT" ? "was not found" : `cannot be run (${error.code ?? "unknown reason"})`),
  );
  child.on("close", (code, signal) => {
    if (confine && code === NOT_CONFINED) end("cannot be confined on this machine");
    else if (code === 0) resolve(new TextDecoder().decode(Buffer.concat(chunks)));
    else end(signal ? `was ended by ${signal}` : `failed with status ${code}`);
  });
  return await promise.finally(() => clearTimeout(timer));
}

/**
 * The command that confines a program.
 * @throws {SbxError} `credential.program`: nothing is run without the confinement
 */
async function confined(argv: readonly string[], name: string, confine: Confinement): Promise<string[]> {
  if (Deno.build.os !== "linux") {
    throw programError(`${name} cannot be confined on this system`, "add it without --confine");
  }
  for (const path of confine.read ?? []) {
    if (await Deno.stat(path).catch(() => null)) continue;
    throw programError(
      `${name} may read ${path}, which is not there`,
      "add the credential again with another path",
    );
  }
  return confinedCommand(argv, confine);
}
