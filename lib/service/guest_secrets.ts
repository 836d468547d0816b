/** Refs that a guest has in place of secrets, and the certificate that it trusts (docs/contracts.md §9). */
import { SbxError } from "../base/error/mod.ts";
import type { Home } from "../base/home/mod.ts";
import { openCa } from "../ca/mod.ts";
import { CredentialBroker, CredentialStore, type Provider, storePath } from "../credential/mod.ts";
import type { BootFile } from "../guest/wire/mod.ts";

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

/** No secret is shorter, in characters. */
const SECRET_MIN = 16;

/**
 * Replaces the secrets among requested variables by refs. The secrets are stored for this VM; no guest and no record has
 * them.
 *
 * @throws {SbxError} `credential.unreadable`: there is a secret, and it cannot be stored
 */
export async function withoutSecrets(
  home: Home,
  vm: string,
  env: Record<string, string>,
): Promise<Record<string, string>> {
  const candidates = Object.entries(env).filter(([, value]) => value.length >= SECRET_MIN);
  if (candidates.length === 0) return env;
  const broker = await CredentialBroker.open({
    store: new CredentialStore(storePath(home)),
    providers: [],
    vm,
  });
  try {
    const clean = candidates.map(([name, value]): [string, string] => {
      const { text } = broker.captureDotEnv(`${name}=${value}`);
      return [name, text.slice(name.length + 1)];
    });
    const hasSecrets = clean.some(([name, value]) => env[name] !== value);
    if (hasSecrets && broker.broken) {
      throw new SbxError(
        "credential.unreadable",
        "a variable holds a secret, and the credential store cannot be read",
        { cause: broker.broken, hint: broker.broken.message },
      );
    }
    await broker.flush();
    return { ...env, ...Object.fromEntries(clean) };
  } finally {
    await broker.close();
  }
}
