import { asSbxError, SbxError } from "../../base/error/mod.ts";

/** Descriptions of operating system errors. */
const REASONS: [new () => Error, string][] = [
  [Deno.errors.PermissionDenied, "permission denied"],
  [Deno.errors.NotFound, "no such file or folder"],
  [Deno.errors.AlreadyExists, "a file or folder of that name exists"],
  [Deno.errors.NotADirectory, "part of the path is not a folder"],
  [Deno.errors.IsADirectory, "it is a folder"],
];

/**
 * Converts an error of a file or folder named by the user to `file.invalid`; keeps a full disk and sbx's own
 * errors.
 */
export function fileError(error: unknown, doing: string): SbxError {
  const reason = REASONS.find(([kind]) => error instanceof kind)?.[1];
  if (!reason) return asSbxError(error, doing);
  return new SbxError("file.invalid", `${doing} failed: ${reason}`, {
    cause: error,
    hint: "check the path and its permissions",
  });
}
