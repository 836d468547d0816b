/** The repository that the tests belong to, and the Deno that runs them. */
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { runChild } from "./child.ts";

const ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..");

/** Absolute path of a file of the repository; with "" its root, with a slash at the end. */
export function fromRoot(path: string): string {
  return join(ROOT, path) + (path === "" ? "/" : "");
}

/** TypeScript files below a folder, relative to the repository. */
export function codeBelow(folder: string): Promise<string[]> {
  return filesBelow(folder, /\.tsx?$/);
}

/** Files below a folder whose name matches, relative to the repository. */
export async function filesBelow(folder: string, name: RegExp): Promise<string[]> {
  const entries = await Array.fromAsync(Deno.readDir(fromRoot(folder)));
  const paths = entries.map((entry) =>
    entry.isDirectory ? filesBelow(`${folder}/${entry.name}`, name) : [`${folder}/${entry.name}`]
  );
  return (await Promise.all(paths)).flat().filter((path) => name.test(path));
}

/** Standard output of a Deno command run in the repository. */
export async function runDeno(args: string[]): Promise<string> {
  const { success, stdout, stderr } = await runChild(Deno.execPath(), { args, cwd: ROOT });
  if (!success) throw new Error(`deno ${args.join(" ")}: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** One module as `deno info` names it. */
interface LoadedModule {
  specifier: string;
  dependencies?: { code?: { specifier?: string }; isDynamic?: boolean }[];
}

/**
 * Specifiers of the modules that are evaluated with a module: all but the ones
 * that are imported while it runs.
 */
export async function loadedAtOnce(root: string): Promise<Set<string>> {
  const { roots, modules } = JSON.parse(await runDeno(["info", "--json", root])) as {
    roots: string[];
    modules: LoadedModule[];
  };
  const imported = new Map(modules.map(({ specifier, dependencies = [] }) => [
    specifier,
    dependencies.flatMap(({ code, isDynamic }) => !isDynamic && code?.specifier ? [code.specifier] : []),
  ]));
  const loaded = new Set(roots);
  // A set that grows is gone through to its end.
  for (const specifier of loaded) {
    for (const next of imported.get(specifier) ?? []) loaded.add(next);
  }
  return loaded;
}
