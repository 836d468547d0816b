/** Private keys as secrets of the store, and their signatures in the form of the library that logs in. */
import { joinBytes } from "../../base/bytes/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { readPrivateKey, signPlain, SshKeyError } from "../../base/ssh/mod.ts";
import { isSecret, SECRET_MAX } from "../form.ts";

/**
 * Reads the private key in a file of OpenSSH or OpenSSL.
 *
 * @param passphrase of an encrypted key
 * @returns the secret: base64 of PKCS #8
 * @throws {SbxError} `credential.invalid`; `credential.locked`: it needs a passphrase
 */
export async function readSshSecret(text: string, passphrase?: string): Promise<string> {
  try {
    const { secret } = await readPrivateKey(text, passphrase);
    if (isSecret(secret)) return secret;
    throw new SshKeyError(
      `the key is longer than ${SECRET_MAX} characters`,
      "use Ed25519, or RSA of 4,096 bits",
    );
  } catch (error) {
    if (!(error instanceof SshKeyError)) throw error;
    const { message, hint, cause, isLocked } = error;
    throw new SbxError(isLocked ? "credential.locked" : "credential.invalid", message, { hint, cause });
  }
}

/** Signs for the authentication of a user. @returns the signature as the library takes it */
export function signLogin(secret: string, data: Uint8Array, algorithm: string): Uint8Array {
  return librarySignature(signPlain(secret, data, algorithm), algorithm);
}

/** A plain signature as the library takes it: DER of the two numbers of ECDSA. */
export function librarySignature(plain: Uint8Array, algorithm: string): Uint8Array {
  if (!algorithm.startsWith("ecdsa-")) return plain;
  const body = joinBytes([
    ...derInteger(plain.subarray(0, plain.length / 2)),
    ...derInteger(plain.subarray(plain.length / 2)),
  ]);
  const head = body.length < 0x80 ? [0x30, body.length] : [0x30, 0x81, body.length];
  return joinBytes([Uint8Array.from(head), body]);
}

function derInteger(number: Uint8Array): Uint8Array[] {
  const from = number.findIndex((byte) => byte !== 0);
  const plain = from < 0 ? Uint8Array.of(0) : number.subarray(from);
  const bytes = plain[0] & 0x80 ? joinBytes([Uint8Array.of(0), plain]) : plain;
  return [Uint8Array.of(2, bytes.length), bytes];
}
