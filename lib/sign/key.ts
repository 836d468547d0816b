/** Keys of SSH that sign, with the reasons why one cannot. */
import { SbxError } from "../base/error/mod.ts";
import {
  type PrivateKey,
  type PublicKey,
  readPrivateKey,
  readPublicKey,
  SshKeyError,
} from "../base/ssh/mod.ts";

/** Reads the line of a public key; a comment behind it is left out. @throws {SbxError} `sign.key.invalid` */
export function readSigningKey(text: string): PublicKey {
  try {
    return readPublicKey(text);
  } catch (error) {
    throw asSigning(error);
  }
}

/**
 * Reads a private key in a file of OpenSSH or OpenSSL.
 *
 * @param passphrase of an encrypted key
 * @throws {SbxError} `sign.key.invalid`; `sign.key.locked`: it needs a passphrase
 */
export async function readSigningFile(text: string, passphrase?: string): Promise<PrivateKey> {
  try {
    return await readPrivateKey(text, passphrase);
  } catch (error) {
    throw asSigning(error);
  }
}

function asSigning(error: unknown): unknown {
  if (!(error instanceof SshKeyError)) return error;
  const { message, hint, isLocked, cause } = error;
  return isLocked
    ? new SbxError("sign.key.locked", message, { hint, cause })
    : keyError(message, hint, cause);
}

export function keyError(problem: string, hint: string, cause?: unknown): SbxError {
  return new SbxError("sign.key.invalid", `the key cannot sign: ${problem}`, { hint, cause });
}
