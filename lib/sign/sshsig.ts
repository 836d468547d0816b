/** Signatures of SSH over commits and tags (OpenSSH's PROTOCOL.sshsig), in the namespace of git alone. */
import { createHash, createPrivateKey, sign, verify } from "node:crypto";
import { Buffer } from "node:buffer";
import type { PublicKey } from "./key.ts";
import { joinBytes } from "../base/bytes/mod.ts";
import { mpint, Reader, string, uint32 } from "./wire.ts";

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
function algorithmOf({ type }: PublicKey): string {
  return type === "ssh-rsa" ? "rsa-sha2-512" : type;
}

/** Signs with a private key. @param secret base64 of PKCS #8 @returns the signature as SSH has it */
export function signWithKey(key: PublicKey, secret: string, bytes: Uint8Array): Uint8Array {
  const pem = createPrivateKey({ key: Buffer.from(secret, "base64"), format: "der", type: "pkcs8" });
  const made = sign(key.hash, bytes, { key: pem, dsaEncoding: "ieee-p1363" });
  const { size } = key;
  const blob = size === undefined
    ? made
    : joinBytes([mpint(made.subarray(0, size)), mpint(made.subarray(size))]);
  return joinBytes([string(algorithmOf(key)), string(blob)]);
}

/** True for a signature of this key over these bytes: an agent may lie. */
export function verifies(key: PublicKey, signature: Uint8Array, bytes: Uint8Array): boolean {
  try {
    const reader = new Reader(signature);
    const algorithm = reader.text();
    const blob = reader.string();
    reader.requireEnd();
    if (algorithm !== algorithmOf(key)) return false;
    return verify(key.hash, bytes, { key: key.key, dsaEncoding: "ieee-p1363" }, plainSignature(key, blob));
  } catch {
    return false;
  }
}

function plainSignature({ size }: PublicKey, blob: Uint8Array): Uint8Array {
  if (size === undefined) return blob;
  const reader = new Reader(blob);
  const both = joinBytes([reader.mpint(size), reader.mpint(size)]);
  reader.requireEnd();
  return both;
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
