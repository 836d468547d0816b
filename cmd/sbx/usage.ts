import { type Command, usageError as createUsageError } from "../../lib/base/args/mod.ts";
import type { SbxError } from "../../lib/base/error/mod.ts";

/** Name of the program in help and errors. */
export const PROGRAM = "sbx";

/** Note in the help of commands that print or take times. */
export const UTC_NOTE = "Times are UTC.";

/** Creates the error for an invalid call, which ends with exit code 2. */
export function usageError(command: Command, message: string, hint?: string): SbxError {
  return createUsageError({ program: PROGRAM, command }, message, hint);
}
