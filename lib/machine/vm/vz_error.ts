import { LibraryError } from "../../../ffi/SbxVM/binding.ts";
import { SbxError } from "../../base/error/mod.ts";

/** Our codes for the library's (ffi/SbxVM/Sources/SbxVM/Failure.swift); its others depend on the call. */
const CODES: Record<string, string> = {
  "handle.invalid": "process.gone",
  "machine.ended": "process.gone",
  "feature.missing": "vm.not_supported",
  "image.invalid": "vm.image_failed",
};

/**
 * An error of the library as ours.
 *
 * @param fallback code of a failure of the hypervisor itself
 * @param what failed
 */
export function libraryError(error: unknown, fallback: string, what: string): SbxError {
  if (error instanceof SbxError) return error;
  if (!(error instanceof LibraryError)) return new SbxError(fallback, what, { cause: error });
  return new SbxError(CODES[error.code] ?? fallback, `${what}: ${error.message}`, { cause: error });
}
