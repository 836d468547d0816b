/** SHA-256 of a secret in hex, stored and compared in place of the secret. */
export async function digest(secret: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return new Uint8Array(hash).toHex();
}
