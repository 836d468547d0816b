import { SbxError } from "../error/mod.ts";
import type { Command } from "./command.ts";

/** A program and its command, as named by errors. */
export interface Invocation {
  /** such as `sbx` */
  program: string;
  command: Command;
}

/** Creates the error of an invalid call, which ends with exit code 2. */
export function usageError({ program, command }: Invocation, message: string, hint?: string): SbxError {
  return new SbxError("usage.invalid", message, { hint: hint ?? `see ${program} ${command.name} --help` });
}
