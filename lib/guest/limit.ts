/** Limits of the boot configuration (contracts.md §7; spec.md, "Events" 4). */
import { SbxError } from "../base/error/mod.ts";

export const MAX_BOOT_VARIABLES = 128;
export const MAX_BOOT_FILES = 64;
/** bytes of all boot files together */
export const MAX_BOOT_BYTES = 10 * 1024 * 1024;
/** spec.md, "Limits": default boot file mode */
export const BOOT_FILE_MODE = 0o600;

/** Names that would change how programs load or how a shell starts. */
const FORBIDDEN_VARIABLE = /^(LD_.*|IFS|BASH_ENV|ENV|PROMPT_COMMAND|BASH_FUNC_.*)$/;

/** Whether a variable is never set in a guest (contracts.md §7, "Never set"). */
export function isForbiddenVariable(name: string): boolean {
  return FORBIDDEN_VARIABLE.test(name);
}

/** A file put into the guest before anything runs in it. */
export interface BootFile {
  path: string;
  /** base64 */
  content: string;
  mode: number;
}

/** @throws {SbxError} `boot.invalid` naming what is over a limit or forbidden */
export function checkBootConfig(env: Record<string, string>, files: BootFile[]): void {
  const names = Object.keys(env);
  const forbidden = names.filter(isForbiddenVariable);
  if (forbidden.length > 0) throw refused(`${forbidden.join(", ")} may not be set in a guest`);
  if (names.length > MAX_BOOT_VARIABLES) {
    throw refused(`${names.length} variables are more than ${MAX_BOOT_VARIABLES}`);
  }
  if (files.length > MAX_BOOT_FILES) {
    throw refused(`${files.length} boot files are more than ${MAX_BOOT_FILES}`);
  }
  const bytes = files.reduce((sum, { content }) => sum + content.length * 0.75, 0);
  if (bytes > MAX_BOOT_BYTES) {
    throw refused(`boot files of ${Math.round(bytes)} bytes are more than ${MAX_BOOT_BYTES}`);
  }
  const misplaced = files.find(({ path }) => !path.startsWith("/") || path.split("/").includes(".."));
  if (misplaced) throw refused(`the boot file "${misplaced.path}" needs an absolute path without ..`);
}

function refused(what: string): SbxError {
  return new SbxError("boot.invalid", `the boot configuration is refused: ${what}`);
}
