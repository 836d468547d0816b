/** Who installs Debian's packages into a tree. */
import { hasTool } from "./command.ts";

/**
 * Command line that installs packages as root: unchanged for root, else through sudo, else in a user
 * namespace.
 */
export async function asRoot(command: string[], env: Record<string, string>): Promise<string[]> {
  if (Deno.uid() === 0 || !await hasTool("sudo")) return command;
  const variables = Object.entries(env).map(([key, value]) => `${key}=${value}`);
  const prompt = "sbx-admin installs packages into the image as root; password of %p: ";
  return ["sudo", "-p", prompt, "env", ...variables, ...command];
}
