import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

/** A program and its arguments. */
export interface SelfCommand {
  cmd: string;
  args: string[];
}

/** What Linux writes after the path of a program whose file was replaced while it runs, as an update does. */
const REPLACED = / \(deleted\)$/;

/** How this same build is started in a role, from source or compiled. */
export function selfCommand(role: string, args: string[] = []): SelfCommand {
  if (Deno.build.standalone) return { cmd: Deno.execPath().replace(REPLACED, ""), args: [role, ...args] };
  const root = join(dirname(fileURLToPath(import.meta.url)), "..", "..", "..");
  const flags = ["run", "-A", "--no-prompt", "--quiet", "--cached-only", "--config", join(root, "deno.json")];
  return { cmd: Deno.execPath(), args: [...flags, join(root, "main.ts"), role, ...args] };
}
