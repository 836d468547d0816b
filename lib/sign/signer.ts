/** Keys that sign, as the credential store has them, and the one signature that each order makes. */
import { SbxError } from "../base/error/mod.ts";
import { checkSignature, type PublicKey, signPlain, signWithAgent, sshSignature } from "../base/ssh/mod.ts";
import { signWithGpg } from "./gpg.ts";
import { readSigningKey } from "./key.ts";
import { SIGNER_MS } from "./limit.ts";
import { algorithmOf, armored, signedBytes } from "./sshsig.ts";

/**
 * Terms of a key that signs (docs/design/contracts/09-credentials.md §9, "Commits and tags"); none is secret.
 */
export interface SigningTerms {
  format: "ssh" | "openpgp";
  /** where the key is: `key` in the store, `agent` and `gpg` with a person's own programs */
  from: "key" | "agent" | "gpg";
  /** line of the SSH key; armored OpenPGP key */
  public: string;
  /** `SHA256:…` of SSH; of OpenPGP without a prefix */
  fingerprint: string;
  /** whose commits and tags it is for; the rules know it as `own` */
  emails?: string[];
  /** of an agent: its socket; of gpg: its folder, where that is not the default */
  place?: string;
}

/**
 * Signs exactly these bytes.
 *
 * @param secret of a key in the store: base64 of PKCS #8
 * @param signal ends it: the credential is revoked, or the guest is gone
 * @throws {SbxError} `sign.failed`
 */
export async function signPayload(
  terms: SigningTerms,
  secret: string,
  payload: Uint8Array,
  signal: AbortSignal,
  waitMs = SIGNER_MS,
): Promise<string> {
  const until = AbortSignal.any([signal, AbortSignal.timeout(waitMs)]);
  if (terms.format === "openpgp") {
    return await signWithGpg(terms.fingerprint, payload, { home: terms.place, signal: until });
  }
  const key = readSigningKey(terms.public);
  const [bytes, algorithm] = [signedBytes(payload), algorithmOf(key)];
  const signature = terms.from === "key"
    ? ownSignature(key, secret, bytes, algorithm)
    : await agentSignature(terms.place ?? "", key, bytes, algorithm, until);
  return armored(key, signature);
}

function ownSignature(key: PublicKey, secret: string, bytes: Uint8Array, algorithm: string): Uint8Array {
  const signature = sshSignature(signPlain(secret, bytes, algorithm), algorithm);
  if (checkSignature(key, bytes, algorithm, signature)) return signature;
  throw new SbxError("sign.failed", "the private key is not the one of the public key that signs", {
    hint: "add the key again: sbx credentials add signing --key FILE",
  });
}

async function agentSignature(
  socket: string,
  key: PublicKey,
  bytes: Uint8Array,
  algorithm: string,
  signal: AbortSignal,
): Promise<Uint8Array> {
  try {
    return sshSignature(await signWithAgent(socket, key, bytes, { algorithm, signal }), algorithm);
  } catch (error) {
    if (!(error instanceof SbxError)) throw error;
    throw new SbxError("sign.failed", error.message, { hint: error.hint, cause: error });
  }
}
