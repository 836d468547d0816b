/**
 * Limits of the guest wire (docs/design/contracts/07-guest-wire.md §7), and the check of a boot configuration
 * by them. Host and guest both apply them, so a change of code here needs a new `GUEST_VERSION`.
 */
import { SbxError } from "../../../base/error/mod.ts";

/** Longest text of a guest's error, in characters. */
export const ERROR_CHARACTERS = 4096;

/** Most `bytes` of a program's output on the control connection; the rest has a connection of its own. */
export const INLINE_BYTES = 4096;

/**
 * Most `bytes` of a program's input on their way to the guest. They fit into its vsock buffers: a vhost-user
 * vsock that holds bytes for a guest that does not read blocks the guest's own output for ever.
 */
export const INPUT_WINDOW = 96 * 1024;

/** Limits of a guest's reports on its programs (section "Activity"). */
export const ACTIVITY_LIMITS = {
  /** processes that were running before the reports began */
  processes: 1024,
  /** arguments of a program */
  args: 256,
  /** characters of all its arguments */
  argvCharacters: 8192,
  /** characters of a path or a reason */
  characters: 4096,
} as const;

/** Id, name and image of a container; the host rejects any other text. */
export const CONTAINER_ID = /^[0-9a-z]{12,64}$/;
export const CONTAINER_NAME = /^[A-Za-z0-9][A-Za-z0-9_.-]{0,127}$/;
export const IMAGE_NAME = /^[A-Za-z0-9][A-Za-z0-9_.:/@-]{0,511}$/;

/** Most TCP streams of a guest at a time; further ones are refused. */
export const TCP_STREAMS_MAX = 4096;
/** Most `bytes` of a frame on the TCP port: addresses and names. */
export const TCP_FRAME_LIMIT = 4096;
/** Most `bytes` of a frame on the DNS port: a packet of 64 KB as base64. */
export const DNS_FRAME_LIMIT = 96 * 1024;
/** Most `bytes` of a frame on the activity port: a program's arguments. */
export const ACTIVITY_FRAME_LIMIT = 64 * 1024;
/** Most `bytes` of a guest's frame on the MCP port. */
export const MCP_FRAME_LIMIT = 1024 * 1024;
/** Most `bytes` of the host's frame on the MCP port: results of tools, such as screenshots, are long. */
export const MCP_RESULT_FRAME_LIMIT = 4 * 1024 * 1024 + 64 * 1024;

export const MAX_BOOT_VARIABLES = 128;
export const MAX_BOOT_FILES = 64;
/** Total size of all boot variables and files with their names, in `bytes`. */
export const MAX_BOOT_BYTES = 10 * 1024 * 1024;
/** Default mode of a boot file (docs/design/contracts/14-limits.md §14). */
export const BOOT_FILE_MODE = 0o600;

const encoder = new TextEncoder();

/** Variables that change how programs load or how a shell starts. */
const FORBIDDEN_VARIABLE = /^(LD_.*|IFS|BASH_ENV|ENV|PROMPT_COMMAND|BASH_FUNC_.*)$/;

/** True for variables that must never be set in a guest (section "Never set"). */
export function isForbiddenVariable(name: string): boolean {
  return FORBIDDEN_VARIABLE.test(name);
}

/** File that the guest writes before it runs any program. */
export interface BootFile {
  path: string;
  /** base64 */
  content: string;
  mode: number;
}

/** Checks a boot configuration. @throws {SbxError} `boot.invalid`: names the limit, variable or path */
export function checkBootConfig(env: Record<string, string>, files: BootFile[]): void {
  const names = Object.keys(env);
  const forbidden = names.filter(isForbiddenVariable);
  if (forbidden.length > 0) throw invalidError(`${forbidden.join(", ")} must not be set in a guest`);
  if (names.length > MAX_BOOT_VARIABLES) {
    throw invalidError(`${names.length} variables, the limit is ${MAX_BOOT_VARIABLES}`);
  }
  if (files.length > MAX_BOOT_FILES) {
    throw invalidError(`${files.length} boot files, the limit is ${MAX_BOOT_FILES}`);
  }
  const contents = files.reduce((sum, { content }) => sum + content.length * 0.75, 0);
  const texts = [...Object.entries(env).flat(), ...files.map(({ path }) => path)];
  const bytes = texts.reduce((sum, text) => sum + encoder.encode(text).length, contents);
  if (bytes > MAX_BOOT_BYTES) {
    throw invalidError(
      `variables and boot files of ${Math.round(bytes)} bytes, the limit is ${MAX_BOOT_BYTES}`,
    );
  }
  const misplaced = files.find(({ path }) => !path.startsWith("/") || path.split("/").includes(".."));
  if (misplaced) {
    throw invalidError(`the path of boot file "${misplaced.path}" is not absolute, or contains ..`);
  }
}

function invalidError(problem: string): SbxError {
  return new SbxError("boot.invalid", `invalid boot configuration: ${problem}`);
}
