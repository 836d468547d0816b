/** Names of files: dangerous ones on any file system of the host, and names of secrets. */
import { textOf } from "../text.ts";
import { NAME_MAX } from "../limit.ts";

/** Characters that HFS+ leaves out of names when it compares them. */
const HFS_IGNORED = /[\u200c-\u200f\u202a-\u202e\u206a-\u206f\ufeff]/g;
/** Short names that NTFS gives to `.git`. */
const NTFS_SHORT = /^git~[0-9]+$/i;

/**
 * Reason to refuse one name of a tree; undefined for a harmless one.
 *
 * @param name as {@linkcode latin1}
 */
export function nameProblem(name: string): string | undefined {
  if (name === "") return "an empty name";
  if (name === "." || name === "..") return `the name "${name}"`;
  if (name.includes("/") || name.includes("\0")) return "a name with a slash or NUL";
  if (name.length > NAME_MAX) return `a name of more than ${NAME_MAX} bytes`;
  // A backslash and a colon part a name on other systems: of a path, of a stream of NTFS.
  if (name.split(/[\\:]/).some(isDotGit)) return "a name that is .git on some file system";
  if (name.split("\\").includes("..")) return "a name with .. between backslashes";
  return undefined;
}

/** True if a name, as `latin1`, is `.git` on some file system. */
export function isDotGit(part: string): boolean {
  const bare = foldedName(part);
  return bare === ".git" || NTFS_SHORT.test(bare);
}

/** A name, as `latin1`, as the least exact file systems compare it. */
export function foldedName(part: string): string {
  const text = textOf(part).replace(HFS_IGNORED, "");
  // NTFS drops dots and spaces at the end.
  return text.normalize("NFKC").toLowerCase().replace(/[. ]+$/, "");
}

/**
 * Why the target of a link is refused; undefined for one that stays inside. `..` may stand only at its
 * beginning, where it goes up through real folders: behind a name it could go up through another link.
 *
 * @param target as {@linkcode latin1}
 * @param depth folders above the link
 */
export function targetProblem(target: string, depth: number): string | undefined {
  if (target === "" || target.includes("\0")) return "a link without a target";
  if (/^(?:\/|[A-Za-z]:|\\)/.test(target)) return "a link to an absolute path";
  const parts = target.split(/[/\\]/).filter((part) => part !== "" && part !== ".");
  const ups = parts.findIndex((part) => part !== "..");
  const climbed = ups < 0 ? parts.length : ups;
  if (climbed > depth || parts.slice(climbed).includes("..")) {
    return "a link that leads out of the repository";
  }
  if (parts.some((part) => part.split(":").some(isDotGit))) return "a link into .git";
  return undefined;
}

// Files that look like secrets, by name, and some by content.

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
  ".terraformrc",
  ".databrickscfg",
  ".s3cfg",
  ".boto",
  "application_default_credentials.json",
  "terraform.tfstate",
  "terraform.tfstate.backup",
]);
/** Last parts of the paths of files that hold secrets, and of folders full of them; in lower case. */
const TAILS = [
  ".aws/credentials",
  ".azure/accesstokens.json",
  ".azure/msal_token_cache.bin",
  ".azure/msal_token_cache.json",
  ".azure/service_principal_entries.json",
  ".cache/huggingface/token",
  ".cargo/credentials",
  ".cargo/credentials.toml",
  ".claude/.credentials.json",
  ".codex/auth.json",
  ".composer/auth.json",
  ".config/.wrangler",
  ".config/composer/auth.json",
  ".config/containers/auth.json",
  ".config/doctl",
  ".config/gcloud",
  ".config/gh",
  ".config/git/credentials",
  ".config/github-copilot",
  ".config/glab-cli",
  ".config/hcloud",
  ".config/helm/registry/config.json",
  ".config/hub",
  ".config/linode-cli",
  ".config/netlify",
  ".config/ngrok",
  ".config/op",
  ".config/rclone",
  ".config/scw",
  ".config/sops",
  ".config/stripe",
  ".config/tea",
  ".docker/config.json",
  ".fly/config.yml",
  ".gem/credentials",
  ".gemini/oauth_creds.json",
  ".gradle/gradle.properties",
  ".huggingface/token",
  ".kaggle/kaggle.json",
  ".kube/config",
  ".local/share/gem/credentials",
  ".local/share/keyrings",
  ".local/share/opencode/auth.json",
  ".m2/settings-security.xml",
  ".m2/settings.xml",
  ".ngrok2/ngrok.yml",
  ".oci/config",
  ".pulumi/credentials.json",
  ".snowflake/connections.toml",
  ".snowsql/config",
  ".subversion/auth",
  ".supabase/access-token",
].map((tail) => tail.split("/"));
const TAIL_PARTS = new Set(TAILS.flat());
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
  [/^pip\.conf$/, /:\/\/[^\s/:@]*:[^\s/@]+@/],
  [/^nuget\.config$/, /password/i],
  [/^gradle\.properties$/, /password|token|secret/i],
  [/^auth\.json$/, /"(?:http-basic|github-oauth|gitlab-token|gitlab-oauth|bearer)"|"private_key"/],
  [/\.json$/, /"private_key"\s*:\s*"-----BEGIN/],
];
/** `bytes` of a file that are searched. */
export const SECRET_SEARCHED = 64 * 1024;

/** Folders of a person that hold secrets. */
const FOLDERS = new Set([
  ".ssh",
  ".gnupg",
  ".password-store",
  ".aws",
  ".azure",
  ".oci",
  ".fly",
  ".terraform.d",
  ".kube",
  ".docker",
]);

/**
 * Whether a path, in any case, looks like a file of secrets; a pattern where the content decides.
 */
export function secretPattern(path: string): boolean | RegExp {
  const parts = path.toLowerCase().split("/");
  const name = parts.at(-1)!;
  if (DOT_ENV.test(name)) return !SAMPLE.test(name);
  if (NAMES.has(name) || SSH_KEY.test(name) || ENDINGS.test(name)) return true;
  if (parts.some((_, at) => endsSecretPath(parts.slice(0, at + 1)))) return true;
  return CONTENTS.find(([names]) => names.test(name))?.[1] ?? false;
}

/** True if a name is a part of a secret's path, in any case; only then its folder matters. */
export function isSecretPart(name: string): boolean {
  return TAIL_PARTS.has(name.toLowerCase());
}

/** True if parts of a path, in lower case, end in a file or folder of secrets. */
export function endsSecretPath(parts: readonly string[]): boolean {
  return TAIL_PARTS.has(parts.at(-1) ?? "") &&
    TAILS.some((tail) => tail.every((part, at) => parts.at(at - tail.length) === part));
}

/** Paths from a folder to files and folders of secrets. @param parts of the folder's path, in lower case */
export function waysToSecrets(parts: readonly string[]): string[][] {
  return TAILS.flatMap((tail) =>
    tail.slice(1).flatMap((_, at) => {
      const first = tail.slice(0, at + 1);
      return first.every((part, i) => parts.at(i - first.length) === part) ? [tail.slice(at + 1)] : [];
    })
  );
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

/** True if a folder looks like one of secrets, by its name. */
export function isSecretFolder(name: string): boolean {
  return FOLDERS.has(name);
}
