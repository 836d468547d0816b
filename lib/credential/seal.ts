/** AES-256-GCM encryption of one secret, bound to its entry. */
import { additionalDataOf, type StoredEntry } from "./entry.ts";

/**
 * Length of a nonce, in `bytes`; random nonces are safe for far more than {@linkcode ENTRIES_MAX} secrets.
 */
const NONCE = 12;

/** Returns the entry with its secret sealed in it. */
export async function seal(key: CryptoKey, entry: StoredEntry, secret: string): Promise<StoredEntry> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE));
  const algorithm = { name: "AES-GCM", iv, additionalData: additionalDataOf(entry) };
  const ciphertext = new Uint8Array(
    await crypto.subtle.encrypt(algorithm, key, new TextEncoder().encode(secret)),
  );
  const sealed = new Uint8Array(NONCE + ciphertext.length);
  sealed.set(iv);
  sealed.set(ciphertext, NONCE);
  return { ...entry, sealed: sealed.toBase64() };
}

/** Opens the secret of an entry; `undefined` when it was sealed with another key or for another entry. */
export async function unseal(key: CryptoKey, entry: StoredEntry): Promise<string | undefined> {
  try {
    const sealed = Uint8Array.fromBase64(entry.sealed ?? "");
    const algorithm = {
      name: "AES-GCM",
      iv: sealed.subarray(0, NONCE),
      additionalData: additionalDataOf(entry),
    };
    return new TextDecoder().decode(
      await crypto.subtle.decrypt(algorithm, key, sealed.subarray(NONCE)),
    );
  } catch {
    return undefined;
  }
}
