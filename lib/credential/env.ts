/**
 * Environment variables of guests, and secrets in `.env` files (docs/design/contracts/09-credentials.md §9).
 */
import type { CredentialSubstitution } from "../event/mod.ts";
import { Capture } from "./capture.ts";
import { isSecret } from "./form.ts";
import { envNamesOf, type Provider, providerOfEnv } from "./provider.ts";
import { REF } from "./ref.ts";
import type { Credential, Vault } from "./vault.ts";

/**
 * Variables that make a guest's clients use refs, from the credential of each provider added last.
 *
 * @returns names and refs, never a secret; for git a helper that returns the ref
 */
export function guestEnvOf(vault: Vault, providers: Iterable<Provider>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const provider of providers) {
    const credential = latestOf(vault, provider);
    if (!credential) continue;
    for (const name of namesFor(provider, credential.secret)) env[name] = credential.entry.ref;
    if (provider === "github") Object.assign(env, GIT_HELPER);
  }
  return env;
}

/** git asks a helper for user and password; it gets the ref, and the broker finds that inside Basic. */
const GIT_HELPER = {
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "credential.https://github.com.helper",
  GIT_CONFIG_VALUE_0:
    '!f() { test "$1" = get && echo username=x-access-token && echo "password=$GITHUB_TOKEN"; }; f',
};

function latestOf(vault: Vault, provider: Provider): Credential | undefined {
  let latest: Credential | undefined;
  for (const credential of vault.active()) {
    const { entry } = credential;
    if (entry.provider !== provider || entry.source !== "added" || entry.decoy) continue;
    if (!latest || entry.created_at >= latest.entry.created_at) latest = credential;
  }
  return latest;
}

/**
 * Variable names for a secret. Anthropic's clients distinguish OAuth tokens from API keys by the variable.
 */
function namesFor(provider: Provider, secret = ""): readonly string[] {
  if (provider !== "anthropic") return envNamesOf(provider);
  return [secret.startsWith("sk-ant-oat") ? "CLAUDE_CODE_OAUTH_TOKEN" : "ANTHROPIC_API_KEY"];
}

/**
 * Line of a `.env` file: the part before the value, the quote, and the value. Programs differ on `#` in a word, so all of it
 * is the value.
 */
const LINE = /^(\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*)(?:(["'`])([^"'`]*)\3|([^\s"'`]+))/;

/**
 * Replaces the secrets of a `.env` file with refs: tokens, and values of variables read by providers'
 * clients.
 */
export function captureDotEnv(
  vault: Vault,
  text: string,
): { text: string; substitutions: CredentialSubstitution[] } {
  const capture = new Capture(vault, "");
  const lines = text.split("\n").map((line) => {
    const [whole, before, name, quote = "", ...values] = LINE.exec(line) ?? [];
    const value = values.find((text) => text !== undefined) ?? "";
    const provider = name === undefined ? undefined : providerOfEnv(name);
    if (whole === undefined || provider === undefined || !isSecret(value) || REF.test(value)) {
      return capture.text(line, ".env");
    }
    const ref = capture.take(provider, value, `.env ${name}`);
    return `${before}${quote}${ref}${quote}${capture.text(line.slice(whole.length), ".env")}`;
  });
  return { text: lines.join("\n"), substitutions: capture.substitutions };
}
