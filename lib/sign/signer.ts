/** Keys that sign, as the credential store has them, and the one signature that each order makes. */
import { SbxError } from "../base/error/mod.ts";
import { signWithAgent } from "./agent.ts";
import { signWithGpg } from "./gpg.ts";
import { readPublicKey } from "./key.ts";
import { SIGNER_MS } from "./limit.ts";
import { armored, signedBytes, signWithKey, verifies } from "./sshsig.ts";

/** Terms of a key that signs (docs/design/contracts/09-credentials.md §9, "Commits and tags"); none is secret. */
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
  const key = readPublicKey(terms.public);
  const bytes = signedBytes(payload);
  const signature = terms.from === "key"
    ? signWithKey(key, secret, bytes)
    : await signWithAgent(terms.place ?? "", key, bytes, until);
  if (verifies(key, signature, bytes)) return armored(key, signature);
  throw new SbxError("sign.failed", "the signature is not of this key and this commit, so it is not used", {
    hint: "look at your ssh-agent: another program may answer at its socket",
  });
}
