import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** Program and its arguments. */
export interface SelfCommand {
  cmd: string;
  args: string[];
}

/** Names under which this build is installed, each a role; `sbx` is the CLI. */
export const ROLE_PROGRAMS = [
  "sbx",
  "sbx-admin",
  "sbx-gateway",
  "sbx-mcp",
  "sbx-mcp-aggregator",
  "sbx-process",
  "sbx-service",
  "sbx-tray",
];

/** Root of the source tree; without meaning in a compiled program. */
const SOURCE_ROOT = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
/** Suffix that Linux adds to the path of a running program whose file was replaced, as by an update. */
const REPLACED = / \(deleted\)$/;

/** Command that starts this build in a role, from source or compiled. */
export function selfCommand(role: string, args: string[] = []): SelfCommand {
  if (Deno.build.standalone) return { cmd: compiledPath(), args: [role, ...args] };
  const config = join(SOURCE_ROOT, "deno.json");
  const flags = ["run", "-A", "--no-prompt", "--quiet", "--cached-only", "--config", config];
  return { cmd: Deno.execPath(), args: [...flags, join(SOURCE_ROOT, "main.ts"), role, ...args] };
}

/**
 * Path of another program of this build: beside this one when compiled, in `bin/` of a source tree.
 *
 * @returns `undefined` when it is not installed
 */
export async function siblingProgram(name: string): Promise<string | undefined> {
  const folder = Deno.build.standalone ? dirname(compiledPath()) : join(SOURCE_ROOT, "bin");
  const path = join(folder, name);
  return await Deno.stat(path).then(({ isFile }) => isFile, () => false) ? path : undefined;
}

function compiledPath(): string {
  return Deno.execPath().replace(REPLACED, "");
}
