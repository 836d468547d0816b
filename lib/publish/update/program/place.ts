import { outputOf } from "../../../base/spawn/mod.ts";
import { SbxError } from "../../../base/error/mod.ts";

/** Suffix that Linux adds to the path of a running program whose file was replaced. */
const REPLACED = / \(deleted\)$/;

/**
 * File of this program, with links resolved.
 *
 * @throws {SbxError} `update.program.source`: it runs from its sources
 */
export async function programPath(): Promise<string> {
  if (Deno.build.standalone) return await Deno.realPath(Deno.execPath().replace(REPLACED, ""));
  throw new SbxError("update.program.source", "this sbx runs from its sources, which no release replaces", {
    hint: "git pull updates them; make install puts a program into /usr/local/bin",
  });
}

/**
 * Refuses a program that a package manager owns: it would consider the file damaged, and restore its own.
 *
 * @throws {SbxError} `update.program.owned`
 */
export async function requireUnowned(path: string): Promise<void> {
  const command = new Deno.Command("dpkg-query", {
    args: ["--search", "--", path],
    env: { LC_ALL: "C" },
    stdin: "null",
    stderr: "null",
  });
  // Without dpkg, it belongs to no package.
  const { success, stdout } = await outputOf(command).catch(() => ({
    success: false,
    stdout: new Uint8Array(),
  }));
  if (!success) return;
  const owner = new TextDecoder().decode(stdout).split(":")[0];
  throw new SbxError("update.program.owned", `${path} belongs to the package "${owner}"`, {
    hint: `update it with its package manager: apt-get update && apt-get install --only-upgrade ${owner}`,
  });
}
