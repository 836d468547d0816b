/** A program of this machine with the libraries that it needs, for a guest whose image lacks it. */
import { basename, join } from "node:path";
import { runChild } from "./child.ts";

/**
 * Copies a program and its libraries into a folder.
 *
 * @param at path of the folder in the guest
 * @returns the words that run it there
 */
export async function packProgram(program: string, folder: string, at: string): Promise<string[]> {
  await Deno.mkdir(folder);
  const { stdout } = await runChild("ldd", { args: [program] });
  const libraries = new TextDecoder().decode(stdout).match(/\/\S+/g) ?? [];
  for (const path of [program, ...libraries]) await Deno.copyFile(path, join(folder, basename(path)));
  const loader = libraries.map((path) => basename(path)).find((name) => name.startsWith("ld-linux"));
  if (loader === undefined) throw new Error(`${program} is no program with libraries`);
  return [join(at, loader), "--library-path", at, join(at, basename(program))];
}
