/** AES-256-GCM around one secret, bound to the entry that it belongs to. */
import { boundTo, type StoredEntry } from "./entry.ts";

/** Bytes of a nonce; random, which is safe for far more than {@linkcode ENTRIES_MAX} of them. */
const NONCE = 12;

/** The entry with its secret sealed in it. */
export async function seal(key: CryptoKey, entry: StoredEntry, secret: string): Promise<StoredEntry> {
  const iv = crypto.getRandomValues(new Uint8Array(NONCE));
  const algorithm = { name: "AES-GCM", iv, additionalData: boundTo(entry) };
  const ciphertext = new Uint8Array(
    await crypto.subtle.encrypt(algorithm, key, new TextEncoder().encode(secret)),
  );
  const sealed = new Uint8Array(NONCE + ciphertext.length);
  sealed.set(iv);
  sealed.set(ciphertext, NONCE);
  return { ...entry, sealed: sealed.toBase64() };
}

/** The secret of an entry; `undefined` when it does not open: it was sealed for this ref, or not here. */
export async function unseal(key: CryptoKey, entry: StoredEntry): Promise<string | undefined> {
  try {
    const sealed = Uint8Array.fromBase64(entry.sealed ?? "");
    const algorithm = {
      name: "AES-GCM",
      iv: sealed.subarray(0, NONCE),
      additionalData: boundTo(entry),
    };
    return new TextDecoder().decode(
      await crypto.subtle.decrypt(algorithm, key, sealed.subarray(NONCE)),
    );
  } catch {
    return undefined;
  }
}
