/**
 * Secrets of applications at Azure as texts for the store
 * (docs/design/contracts/09-credentials.md §9, "Clouds").
 */
import { derOf, invalidKey, pack } from "./key_file.ts";

/** A client secret, for one service of Azure: each has a ref of its own. */
export function packAzureSecret(client_secret: string, resource: string): string {
  return pack({ client_secret, resource });
}

/**
 * Reads a certificate with its private key.
 *
 * @param text PEM with both, as `openssl` and the CLI of Azure write it
 * @throws {SbxError} `credential.invalid`
 */
export async function packAzureCertificate(text: string, resource: string): Promise<string> {
  const hint = "give a file in PEM with CERTIFICATE and PRIVATE KEY, without a password";
  const key = derOf(text, "PRIVATE KEY", hint);
  const der = derOf(text, "CERTIFICATE", hint);
  let bytes: Uint8Array<ArrayBuffer>;
  try {
    bytes = Uint8Array.fromBase64(der);
  } catch {
    throw invalidKey("the certificate is not base64", hint);
  }
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", bytes));
  return pack({ key, x5t: digest.toBase64({ alphabet: "base64url", omitPadding: true }), resource });
}
