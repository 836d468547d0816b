/** Output of a run on a build server. */
import { print } from "../../../lib/base/print/mod.ts";
import { streamProgram } from "../vm/program.ts";

/** Whether GitHub's runner reads this output, and obeys its workflow commands. */
export const isGithub = () => Deno.env.get("GITHUB_ACTIONS") === "true";

/**
 * Shows a program's output. On GitHub, no workflow command in it is obeyed: only the word given before ends
 * that. All of it goes to one stream there, since the runner reads standard error and output by turns: the
 * word on one of them would overtake output on the other.
 */
export async function showProgram(response: Response): Promise<number> {
  if (!isGithub()) return await streamProgram(response);
  const word = crypto.randomUUID();
  await print(`::stop-commands::${word}`);
  try {
    return await streamProgram(response, { stderr: Deno.stdout });
  } finally {
    await print(`\n::${word}::`);
  }
}
