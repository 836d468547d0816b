/** SHA-256 of a secret in hex: what is stored and compared in its place. */
export async function digest(secret: string): Promise<string> {
  const hash = await crypto.subtle.digest("SHA-256", new TextEncoder().encode(secret));
  return new Uint8Array(hash).toHex();
}
