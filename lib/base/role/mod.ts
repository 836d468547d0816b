/**
 * Entry of a role that has no commands: help, version, errors and exit codes
 * (docs/design/contracts/01-homes.md §1).
 */
import { asSbxError, SbxError } from "../error/mod.ts";
import { log, say } from "../log/mod.ts";
import { print } from "../print/mod.ts";
import { VERSION } from "../version/mod.ts";

export interface Role {
  /** name as typed, such as `sbx-service` */
  name: string;
  /** text of `--help`: the call, an empty line, and the role's purpose */
  usage: string;
  /** what failed, for errors without a message of their own: `starting the gateway` */
  doing: string;
  /** @returns the exit code */
  run(args: string[]): number | Promise<number>;
}

/**
 * Answers `--help` and `--version`, or runs the role and reports its error on standard error.
 *
 * @returns the exit code: 2 for invalid arguments, 1 for any other error
 */
export async function runRole({ name, usage, doing, run }: Role, args: string[]): Promise<number> {
  const [only] = args.length === 1 ? args : [];
  if (only === "--version" || only === "-V") return await answer(`${name} ${VERSION}`);
  if (args.includes("--help") || only === "-h") return await answer(usage.trimEnd());
  try {
    return await run(args);
  } catch (cause) {
    const error = asSbxError(cause, doing);
    say(`${name}: ${error.message} (${error.code})`);
    if (error.hint) say(error.hint);
    if (error.code === "internal") log.error(error.cause);
    return error.code === "usage.invalid" ? 2 : 1;
  }
}

/** The error for arguments that a role does not take. @param name of the role, `sbx-service` */
export function unknownArguments(name: string, args: string[]): SbxError {
  return new SbxError("usage.invalid", `unknown argument${args.length > 1 ? "s" : ""}: ${args.join(" ")}`, {
    hint: `${name} --help lists the arguments`,
  });
}

async function answer(text: string): Promise<0> {
  await print(text);
  return 0;
}
