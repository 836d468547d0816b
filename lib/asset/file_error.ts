import { asSbxError, SbxError } from "../base/error/mod.ts";

/** What the operating system said, in our words. */
const WHY: [new (...args: any[]) => Error, string][] = [
  [Deno.errors.PermissionDenied, "this user may not do that"],
  [Deno.errors.NotFound, "there is no such file or folder"],
  [Deno.errors.AlreadyExists, "something else is there already"],
  [Deno.errors.NotADirectory, "a part of the path is not a folder"],
  [Deno.errors.IsADirectory, "it is a folder"],
];

/** A failed use of a file or folder that the user named, as `file.invalid`; a full disk and our own errors stay what they are. */
export function fileError(error: unknown, doing: string): SbxError {
  const why = WHY.find(([kind]) => error instanceof kind)?.[1];
  if (!why) return asSbxError(error, doing);
  return new SbxError("file.invalid", `${doing} failed: ${why}`, {
    cause: error,
    hint: "check the path and its permissions",
  });
}
