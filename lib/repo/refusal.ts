/** Errors about a guest's work that is refused as a whole. */
import { SbxError } from "../base/error/mod.ts";

/** `repo.refused`: bytes that an honest git does not write, or that are dangerous on the host. */
export function refused(reason: string): SbxError {
  return new SbxError("repo.refused", `the work of the VM was refused: ${reason}`, {
    hint: "nothing was taken; sbx shell NAME shows the work in the VM",
  });
}

/** `repo.too_large`: more than a limit of `limit.ts`. */
export function tooLarge(what: string): SbxError {
  return new SbxError("repo.too_large", `the work of the VM was refused: ${what}`, {
    hint: "nothing was taken; sbx cp SRC DST copies single files",
  });
}
