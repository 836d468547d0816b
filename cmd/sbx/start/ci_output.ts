/** Output and files of a run on a build server. */
import { SbxError } from "../../../lib/base/error/mod.ts";
import { writeAtomic } from "../../../lib/base/home/mod.ts";
import { print } from "../../../lib/base/print/mod.ts";
import { streamProgram } from "../vm/program.ts";
import { join } from "node:path";

/** True where GitHub's runner reads this output, and obeys its workflow commands. */
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

/** Mode of the files of a report, which other users of a build server may read. */
const REPORT_MODE = 0o644;

/**
 * Makes the folder of a report, before the VM: its work would be lost without it.
 * @throws {SbxError} `ci.folder`: it cannot be made, or is a link, which a commit may have brought
 */
export async function makeReportFolder(path: string): Promise<void> {
  const refusal = (problem: string, cause?: unknown) =>
    new SbxError("ci.folder", `the folder ${path} ${problem}`, {
      cause,
      hint: "name another one with --out",
    });
  await Deno.mkdir(path, { recursive: true }).catch((cause) => {
    throw refusal("cannot be made", cause);
  });
  if ((await Deno.lstat(path)).isSymlink) throw refusal("is a symbolic link");
}

/** Writes the files of a report in place of earlier ones, and never through a link. */
export async function writeReport(out: string, files: Record<string, string>, record: string): Promise<void> {
  for (const [name, text] of Object.entries(files)) await writeAtomic(join(out, name), text, REPORT_MODE);
  const temporary = join(out, `.${crypto.randomUUID()}.tmp`);
  await Deno.copyFile(record, temporary);
  await Deno.rename(temporary, join(out, "session.db"));
}
