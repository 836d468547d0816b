import type { CreateRequest } from "../../../lib/client/api/mod.ts";
import type { Arguments, Option } from "../../../lib/base/args/mod.ts";
import { IMAGE_OPTION } from "./image_option.ts";
import { LIMIT_OPTION, vmLimitsOf } from "./limit_option.ts";
import { CREDENTIAL_OPTION, credentialsOf, SIZE_OPTIONS, sizeOf } from "./new_vm.ts";
import { QUEUE_OPTION, queueOf } from "./queue.ts";

/** Options that `create`, `run` and `ci` have for the VM that they make. */
export const NEW_VM_OPTIONS: Option[] = [
  ...SIZE_OPTIONS,
  LIMIT_OPTION,
  QUEUE_OPTION,
  CREDENTIAL_OPTION,
  IMAGE_OPTION,
];

/**
 * Request fields of {@linkcode NEW_VM_OPTIONS}, without the image, which is pulled first.
 *
 * @throws {SbxError} `usage.invalid`
 */
export function newVmOf(args: Arguments): CreateRequest {
  return { ...sizeOf(args), ...vmLimitsOf(args), ...queueOf(args), ...credentialsOf(args) };
}
