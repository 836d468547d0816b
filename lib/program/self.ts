import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A program and its arguments. */
export interface SelfCommand {
  cmd: string;
  args: string[];
}

/** How this same build is started in a role, from source or compiled. */
export function selfCommand(role: string, args: string[] = []): SelfCommand {
  if (Deno.build.standalone) return { cmd: Deno.execPath(), args: [role, ...args] };
  const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..");
  const flags = ["run", "-A", "--quiet", "--cached-only", "--config", join(root, "deno.json")];
  return { cmd: Deno.execPath(), args: [...flags, join(root, "main.ts"), role, ...args] };
}
