/** The error that users see, and helpers for failures that may be ignored. */

/** Optional fields of an {@linkcode SbxError}. */
export interface SbxErrorOptions {
  /** lower-level failure, for logs only: its text never reaches a user */
  cause?: unknown;
  /** next step for the user, one sentence */
  hint?: string;
}

/**
 * Failure shown to users. `code` is a stable string (`vm.not_found`) with the HTTP status of
 * {@linkcode statusOf}; `message` names the failure and its object.
 *
 * @example
 * ```ts
 * throw new SbxError("vm.not_found", `no VM is called "${name}"`, { hint: "sbx list shows the VMs" });
 * ```
 */
export class SbxError extends Error {
  override name = "SbxError";
  readonly code: string;
  readonly hint?: string;

  constructor(code: string, message: string, { cause, hint }: SbxErrorOptions = {}) {
    super(message, { cause });
    this.code = code;
    this.hint = hint;
  }
}

/**
 * Converts any error to an {@linkcode SbxError}: ours stay as they are, others become the cause of an error
 * that hides their text. Failures that a person can mend get a code of their own, the rest are `internal`.
 *
 * @param action gerund phrase for the message, such as `reading /path`
 */
export function asSbxError(error: unknown, action: string): SbxError {
  if (error instanceof SbxError) return error;
  const { code, problem, hint } = explain(error);
  return new SbxError(code, `${action}${problem}`, { cause: error, hint });
}

function explain(error: unknown): { code: string; problem: string; hint?: string } {
  if (error instanceof Deno.errors.NotCapable) {
    return { code: "internal", problem: ": this process has dropped the required permission" };
  }
  if (isErrno(error, "ENOSPC", 28)) {
    return {
      code: "disk.full",
      problem: ": no space left on the disk",
      hint: "free some space (sbx list shows the VMs, sbx delete NAME removes one) and try again",
    };
  }
  if (error instanceof Deno.errors.PermissionDenied || isErrno(error, "EACCES", 13)) {
    return {
      code: "file.denied",
      problem: ": permission denied",
      hint: "sbx doctor names files that belong to another user or cannot be read",
    };
  }
  if (error instanceof Deno.errors.NotADirectory) return invalidPath("part of a path is not a folder");
  if (isErrno(error, "ENAMETOOLONG", 36)) return invalidPath("a path is too long");
  return {
    code: "internal",
    problem: " failed",
    hint: "see sbx logs NAME and the service log for details",
  };
}

function invalidPath(problem: string) {
  return { code: "file.invalid_path", problem: `: ${problem}`, hint: "check the paths of the call" };
}

/** Tests for a system error without a class in Deno: by Node's code, or by the number in Deno's text. */
function isErrno(error: unknown, code: string, number: number): boolean {
  if (!(error instanceof Error)) return false;
  return (error as { code?: string }).code === code || error.message.includes(`os error ${number})`);
}

/**
 * Handler of a failure without consequences. The reason is for the reader; log a
 * failure that someone should know of.
 *
 * @example
 * ```ts
 * await channel.send(last).catch(ignore("the other side has left"));
 * ```
 */
export function ignore(_reason: string): () => undefined {
  return () => undefined;
}

/** Result of an operation on a file; `undefined` if the file does not exist. Other failures are thrown. */
export async function ifFound<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
