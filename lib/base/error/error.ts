/** What else an {@linkcode SbxError} may carry. */
export interface SbxErrorOptions {
  /** the lower-level failure, for logs only: its text never reaches a user */
  cause?: unknown;
  /** what the user can do next, one sentence */
  hint?: string;
}

/**
 * Every failure that a user may see. `code` is a stable string (`vm.not_found`), whose HTTP status is in
 * {@linkcode statusOf}; `message` says what happened, and to what.
 *
 * @example
 * ```ts
 * throw new SbxError("vm.not_found", `no VM is called "${name}"`, { hint: "sbx list shows those that exist" });
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

/** `error` itself if it is ours; otherwise an `internal` error that keeps it as cause and hides its text. */
export function asSbxError(error: unknown, doing: string): SbxError {
  if (error instanceof SbxError) return error;
  if (error instanceof Deno.errors.NotCapable) {
    return new SbxError("internal", `${doing}: this role has given up the permission that it needs`, {
      cause: error,
    });
  }
  if (isNoSpace(error)) {
    return new SbxError("disk.full", `${doing}: no space is left on the disk`, {
      cause: error,
      hint: "free some space (sbx list shows the VMs, sbx delete removes one) and try again",
    });
  }
  return new SbxError("internal", `${doing} failed`, {
    cause: error,
    hint: "sbx logs and the service log say more",
  });
}

function isNoSpace(error: unknown): boolean {
  return error instanceof Error &&
    ((error as { code?: string }).code === "ENOSPC" || error.message.includes("os error 28"));
}
