/** Signatures of SSH over commits and tags (OpenSSH's PROTOCOL.sshsig), in the namespace of git alone. */
import { createHash } from "node:crypto";
import { joinBytes } from "../base/bytes/mod.ts";
import { type PublicKey, string, uint32 } from "../base/ssh/mod.ts";

const MAGIC = new TextEncoder().encode("SSHSIG");
/** What git signs for; no signature for another use can be made of one. */
const NAMESPACE = "git";
const HASH = "sha512";
/** Characters of a line of an armored signature. */
const LINE = 70;

/** The bytes that the key signs for a payload. */
export function signedBytes(payload: Uint8Array): Uint8Array {
  const digest = createHash(HASH).update(payload).digest();
  return joinBytes([MAGIC, string(NAMESPACE), string(""), string(HASH), string(digest)]);
}

/** Name of the algorithm of a key's signatures. */
export function algorithmOf({ type }: PublicKey): string {
  return type === "ssh-rsa" ? "rsa-sha2-512" : type;
}

/** The signature as git stores it. */
export function armored({ blob }: PublicKey, signature: Uint8Array): string {
  const parts = [
    MAGIC,
    uint32(1),
    string(blob),
    string(NAMESPACE),
    string(""),
    string(HASH),
    string(signature),
  ];
  const lines = joinBytes(parts).toBase64().match(new RegExp(`.{1,${LINE}}`, "g"))!;
  return ["-----BEGIN SSH SIGNATURE-----", ...lines, "-----END SSH SIGNATURE-----", ""].join("\n");
}
