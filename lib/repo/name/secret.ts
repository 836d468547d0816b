/** Files that look like secrets, by their names, and some by what they hold. */
import { basename } from "node:path";

/** Names of files that hold secrets. */
const NAMES = new Set([
  ".netrc",
  "_netrc",
  ".git-credentials",
  ".pgpass",
  ".my.cnf",
  ".htpasswd",
  ".vault-token",
  "kubeconfig",
  "credentials.tfrc.json",
  "terraform.tfstate",
  "terraform.tfstate.backup",
]);
/** Paths whose last parts hold secrets. */
const TAILS = [".aws/credentials", ".docker/config.json", ".kube/config", ".config/gh/hosts.yml"];
const ENDINGS = /\.(?:pem|key|p12|pfx|jks|keystore|kdbx|ppk|asc\.key)$/i;
const SSH_KEY = /^id_(?:rsa|dsa|ecdsa|ed25519)(?:_sk)?$/;
const DOT_ENV = /^\.env(?:\..*|rc)?$/;
/** Samples of a .env file that people commit on purpose. */
const SAMPLE = /\.(?:example|sample|template|dist|defaults)$/i;

/** Files that hold a secret only with these contents. */
const CONTENTS: [RegExp, RegExp][] = [
  [/^\.npmrc$/, /_authToken|_auth\b|_password/],
  [/^\.yarnrc\.yml$/, /npmAuthToken|npmAuthIdent/],
  [/^\.pypirc$/, /password/],
  [/^\.dockercfg$/, /auth/],
  [/\.json$/, /"private_key"\s*:\s*"-----BEGIN/],
];
/** `bytes` of a file that are searched. */
export const SECRET_SEARCHED = 64 * 1024;

/** Folders of a person that hold secrets. */
const FOLDERS = new Set([".ssh", ".gnupg", ".aws", ".kube", ".docker"]);

/**
 * Whether a file looks like one of secrets by its path; a pattern where what it holds decides.
 */
export function secretPattern(path: string): boolean | RegExp {
  const name = basename(path);
  if (DOT_ENV.test(name)) return !SAMPLE.test(name);
  if (NAMES.has(name) || SSH_KEY.test(name) || ENDINGS.test(name)) return true;
  if (TAILS.some((tail) => path === tail || path.endsWith(`/${tail}`))) return true;
  return CONTENTS.find(([names]) => names.test(name))?.[1] ?? false;
}

/**
 * Whether a file looks like one of secrets.
 *
 * @param read its first `bytes`, asked for only where the name leaves it open
 */
export async function looksSecret(path: string, read: (bytes: number) => Promise<string>): Promise<boolean> {
  const pattern = secretPattern(path);
  return typeof pattern === "boolean" ? pattern : pattern.test(await read(SECRET_SEARCHED));
}

/** Whether a folder looks like one of secrets, by its name. */
export function isSecretFolder(name: string): boolean {
  return FOLDERS.has(name);
}
