import { createHash } from "node:crypto";
import { SbxError } from "../../base/error/mod.ts";

/** Bytes of an Ed25519 public key, and of a signature. */
export const PUBLIC_KEY_BYTES = 32, SIGNATURE_BYTES = 64;

/** Ed25519 key that verifies. */
export interface PublicKey {
  /** SHA-256 of the raw key, 64 hex characters */
  id: string;
  raw: Uint8Array<ArrayBuffer>;
}

/** Ed25519 key that signs. */
export interface SigningKey {
  publicKey: PublicKey;
  sign(bytes: Uint8Array<ArrayBuffer>): Promise<Uint8Array>;
}

/** Id of a raw public key: SHA-256 in hex. */
export function keyIdOf(raw: Uint8Array): string {
  return createHash("sha256").update(raw).digest("hex");
}

/** Verifies a signature. */
export async function verifySignature(
  { raw }: PublicKey,
  signature: Uint8Array<ArrayBuffer>,
  bytes: Uint8Array<ArrayBuffer>,
): Promise<boolean> {
  const key = await crypto.subtle.importKey("raw", raw, "Ed25519", false, ["verify"]);
  return await crypto.subtle.verify("Ed25519", key, signature, bytes);
}

/** Makes a key pair. @returns the private key as PKCS #8 in PEM */
export async function generateSigningKey(): Promise<string> {
  const { privateKey } = await crypto.subtle.generateKey("Ed25519", true, [
    "sign",
    "verify",
  ]) as CryptoKeyPair;
  const der = new Uint8Array(await crypto.subtle.exportKey("pkcs8", privateKey));
  const lines = der.toBase64().match(/.{1,64}/g)!;
  return ["-----BEGIN PRIVATE KEY-----", ...lines, "-----END PRIVATE KEY-----", ""].join("\n");
}

/**
 * Parses a private key, PKCS #8 in PEM, as `openssl genpkey -algorithm ed25519` writes it.
 *
 * @throws {SbxError} `release.keys.invalid`
 */
export async function parseSigningKey(pem: string, path: string): Promise<SigningKey> {
  const [, body] =
    /^\s*-----BEGIN PRIVATE KEY-----([A-Za-z0-9+/=\s]+)-----END PRIVATE KEY-----\s*$/.exec(pem) ?? [];
  try {
    const der = Uint8Array.fromBase64(body ?? "");
    const key = await crypto.subtle.importKey("pkcs8", der, "Ed25519", true, ["sign"]);
    const { x } = await crypto.subtle.exportKey("jwk", key);
    const raw = Uint8Array.fromBase64(x!, { alphabet: "base64url" });
    return {
      publicKey: { id: keyIdOf(raw), raw },
      sign: async (bytes) => new Uint8Array(await crypto.subtle.sign("Ed25519", key, bytes)),
    };
  } catch {
    // The cause may quote the key.
    throw new SbxError("release.keys.invalid", `${path} is not an Ed25519 private key`, {
      hint: "give a PKCS #8 key in PEM, such as openssl genpkey -algorithm ed25519 writes",
    });
  }
}
