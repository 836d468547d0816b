/**
 * Refs that a guest has in place of secrets, and the certificate that it trusts
 * (docs/design/contracts/09-credentials.md §9).
 */
import type { Home } from "../../base/home/mod.ts";
import { openCa } from "../../network/ca/mod.ts";
import { CredentialBroker, CredentialStore, type Provider, storePath } from "../../credential/mod.ts";
import type { BootFile } from "../../machine/guest/wire/mod.ts";

/** Path of the certificate in the guest, and the bundle that the agent adds it to. */
const CA_PATH = "/etc/sbx/ca.pem";
const BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
/** Variables that name the authorities of common clients; Node.js and Deno add the file to their own. */
const TRUST: Record<string, string> = {
  SSL_CERT_FILE: BUNDLE,
  REQUESTS_CA_BUNDLE: BUNDLE,
  CURL_CA_BUNDLE: BUNDLE,
  GIT_SSL_CAINFO: BUNDLE,
  NODE_EXTRA_CA_CERTS: CA_PATH,
  DENO_CERT: CA_PATH,
};

/**
 * The certificate of this machine's CA for a guest, and the variables that make its programs trust it.
 *
 * @throws {SbxError} `ca.insecure`, `ca.missing`, `ca.invalid`: no VM starts with a CA that others can read
 */
export async function guestTrust(home: Home): Promise<{ env: Record<string, string>; file: BootFile }> {
  const { certificate } = await openCa(home);
  const content = new TextEncoder().encode(certificate).toBase64();
  return { env: TRUST, file: { path: CA_PATH, content, mode: 0o644 } };
}

/** Variables with the refs of these providers' credentials; none if the store cannot be read. */
export async function guestRefs(home: Home, providers: Provider[]): Promise<Record<string, string>> {
  const store = new CredentialStore(storePath(home));
  if (providers.length === 0 || store.list().length === 0) return {};
  const broker = await CredentialBroker.open({ store, providers });
  try {
    return broker.guestEnv();
  } finally {
    await broker.close();
  }
}
