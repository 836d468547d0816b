/** Optional fields of an {@linkcode SbxError}. */
export interface SbxErrorOptions {
  /** lower-level failure, for logs only: its text never reaches a user */
  cause?: unknown;
  /** next step for the user, one sentence */
  hint?: string;
}

/**
 * Failure shown to users. `code` is a stable string (`vm.not_found`) with the HTTP status of {@linkcode statusOf};
 * `message` names the failure and its object.
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
 * Converts any error to an {@linkcode SbxError}: ours stay as they are, others become the cause of an `internal` error
 * that hides their text.
 *
 * @param action gerund phrase for the message, such as `reading /path`
 */
export function asSbxError(error: unknown, action: string): SbxError {
  if (error instanceof SbxError) return error;
  if (error instanceof Deno.errors.NotCapable) {
    return new SbxError("internal", `${action}: this process has dropped the required permission`, {
      cause: error,
    });
  }
  if (isDiskFull(error)) {
    return new SbxError("disk.full", `${action}: no space left on the disk`, {
      cause: error,
      hint: "free some space (sbx list shows the VMs, sbx delete NAME removes one) and try again",
    });
  }
  if (isDenied(error)) {
    return new SbxError("file.denied", `${action}: permission denied`, {
      cause: error,
      hint: "sbx doctor names files that belong to another user or cannot be read",
    });
  }
  const path = pathProblem(error);
  if (path) {
    return new SbxError("file.invalid_path", `${action}: ${path}`, {
      cause: error,
      hint: "check the paths of the call",
    });
  }
  return new SbxError("internal", `${action} failed`, {
    cause: error,
    hint: "see sbx logs NAME and the service log for details",
  });
}

function isDenied(error: unknown): boolean {
  return error instanceof Deno.errors.PermissionDenied ||
    (error instanceof Error && (error as { code?: string }).code === "EACCES");
}

/** Reason why a path cannot be a file's here. */
function pathProblem(error: unknown): string | undefined {
  if (error instanceof Deno.errors.NotADirectory) return "part of a path is not a folder";
  // Deno has no class for ENAMETOOLONG.
  if (error instanceof Error && error.message.includes("os error 36")) return "a path is too long";
}

function isDiskFull(error: unknown): boolean {
  return error instanceof Error &&
    ((error as { code?: string }).code === "ENOSPC" || error.message.includes("os error 28"));
}

/**
 * Handler of a failure that changes nothing. The reason is for the reader; where a failure may be news, log it instead.
 *
 * @example
 * ```ts
 * await channel.send(last).catch(ignore("the other side has left"));
 * ```
 */
export function ignore(_reason: string): () => undefined {
  return () => undefined;
}

/** The result of an operation on a file; undefined if the file does not exist. Other failures are thrown. */
export async function ifFound<T>(operation: Promise<T>): Promise<T | undefined> {
  try {
    return await operation;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return undefined;
    throw error;
  }
}
