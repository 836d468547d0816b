/** What a guest is given instead of secrets, and the certificate that it trusts (contracts.md §9). */
import { openCa } from "../ca/mod.ts";
import { CredentialBroker, CredentialStore, type Provider, storePath } from "../credential/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import type { BootFile } from "../guest/limit.ts";
import type { Home } from "../base/home/mod.ts";

/** Where the agent looks for the certificate, and the bundle that it puts it into. */
const CA_PATH = "/etc/sbx/ca.pem";
const BUNDLE = "/etc/ssl/certs/ca-certificates.crt";
/** What clients look for their authorities in; Node.js and Deno add a file to those of their own. */
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
 * @throws {SbxError} `ca.insecure`, `ca.missing`, `ca.invalid`: no VM starts with a CA that others may have
 */
export async function guestTrust(home: Home): Promise<{ env: Record<string, string>; file: BootFile }> {
  const { certificate } = await openCa(home);
  const content = new TextEncoder().encode(certificate).toBase64();
  return { env: TRUST, file: { path: CA_PATH, content, mode: 0o644 } };
}

/** Variables that hold refs of the credentials that these providers have; none where the store cannot be read. */
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

/**
 * Variables that somebody asked for, with refs in place of the secrets among them: those are kept for this VM, and
 * nothing of them is written to a guest or to its record.
 */
export async function withoutSecrets(
  home: Home,
  vm: string,
  env: Record<string, string>,
): Promise<Record<string, string>> {
  const lines = Object.entries(env).filter(([, value]) => value.length >= SECRET_LIKE);
  if (lines.length === 0) return env;
  const broker = await CredentialBroker.open({
    store: new CredentialStore(storePath(home)),
    providers: [],
    vm,
  });
  try {
    const clean = lines.map(([name, value]): [string, string] => {
      const { text } = broker.captureDotEnv(`${name}=${value}`);
      return [name, text.slice(name.length + 1)];
    });
    const changed = clean.some(([name, value]) => env[name] !== value);
    if (changed && broker.broken) {
      throw new SbxError(
        "credential.unreadable",
        "a variable holds a secret, and the credential store cannot be read",
        {
          cause: broker.broken,
          hint: broker.broken.message,
        },
      );
    }
    await broker.flush();
    return { ...env, ...Object.fromEntries(clean) };
  } finally {
    await broker.close();
  }
}

/** No secret is shorter. */
const SECRET_LIKE = 16;
