import { outputOf } from "../../../base/spawn/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";
import { isObject } from "../../../base/object/mod.ts";
import { parseJson } from "../../../base/json/mod.ts";
import { timeLimit } from "../../../base/time/mod.ts";

/** Time for a program to say its version, in `ms`: the first start of a new one reads all of it. */
const TRIAL_MS = timeLimit(60_000);

/** Asks a program for its version: one that cannot start here says none. @throws {SbxError} `update.program.failed` */
export async function askVersion(path: string): Promise<string> {
  const failed = (problem: string, cause?: unknown) =>
    new SbxError("update.program.failed", `${path} does not run on this machine: ${problem}`, {
      cause,
      hint: "the installed program is unchanged; tell its publisher",
    });
  const command = new Deno.Command(path, {
    args: ["version", "--json"],
    stdin: "null",
    signal: AbortSignal.timeout(TRIAL_MS),
  });
  const { success, code, stdout, stderr } = await outputOf(command).catch((cause) => {
    throw failed((cause as Error).message, cause);
  });
  const text = (bytes: Uint8Array) => new TextDecoder().decode(bytes);
  if (!success) throw failed(`it exited with ${code}: ${text(stderr).trim().split("\n")[0]}`);
  try {
    const value = parseJson(text(stdout));
    if (isObject(value) && typeof value.version === "string") return value.version;
  } catch {
    // Said below.
  }
  throw failed("it says no version");
}
