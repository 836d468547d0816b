/** Environment variables: what a guest is given, and what `.env` files hold (contracts.md §9). */
import type { CredentialSubstitution } from "../event/mod.ts";
import { Capture } from "./capture.ts";
import { isSecret } from "./form.ts";
import { envNamesOf, type Provider, providerOfEnv } from "./provider.ts";
import { REF } from "./ref.ts";
import type { Known, Vault } from "./vault.ts";

/**
 * The variables that make a guest's clients use refs: of each provider the credential that was added last.
 *
 * @returns names and refs, never a secret; for git a helper that answers with the ref
 */
export function guestEnvOf(vault: Vault, providers: Iterable<Provider>): Record<string, string> {
  const env: Record<string, string> = {};
  for (const provider of providers) {
    const known = latestOf(vault, provider);
    if (!known) continue;
    for (const name of namesFor(provider, known.secret)) env[name] = known.entry.ref;
    if (provider === "github") Object.assign(env, GIT_HELPER);
  }
  return env;
}

/** git asks a helper for user and password; what it gets is the ref, which the broker finds inside Basic. */
const GIT_HELPER = {
  GIT_CONFIG_COUNT: "1",
  GIT_CONFIG_KEY_0: "credential.https://github.com.helper",
  GIT_CONFIG_VALUE_0:
    '!f() { test "$1" = get && echo username=x-access-token && echo "password=$GITHUB_TOKEN"; }; f',
};

function latestOf(vault: Vault, provider: Provider): Known | undefined {
  let latest: Known | undefined;
  for (const known of vault.alive()) {
    const { entry } = known;
    if (entry.provider !== provider || entry.source !== "added" || entry.decoy) continue;
    if (!latest || entry.created_at >= latest.entry.created_at) latest = known;
  }
  return latest;
}

/** Anthropic's clients send an OAuth token differently from a key, and tell them apart by the variable. */
function namesFor(provider: Provider, secret = ""): readonly string[] {
  if (provider !== "anthropic") return envNamesOf(provider);
  return [secret.startsWith("sk-ant-oat") ? "CLAUDE_CODE_OAUTH_TOKEN" : "ANTHROPIC_API_KEY"];
}

/** A line of a `.env` file: what stands before the value, its quote, and the value. */
const LINE = /^(\s*(?:export\s+)?([A-Za-z_][A-Za-z0-9_]*)\s*=\s*)(["']?)([^"'\s#]+)\3/;

/** A `.env` file with refs in place of the secrets in it: those of variables that providers' clients read, and tokens. */
export function captureDotEnv(
  vault: Vault,
  text: string,
): { text: string; substitutions: CredentialSubstitution[] } {
  const capture = new Capture(vault, "");
  const lines = text.split("\n").map((line) => {
    const [whole, before, name, quote, value] = LINE.exec(line) ?? [];
    const provider = name === undefined ? undefined : providerOfEnv(name);
    if (whole === undefined || provider === undefined || !isSecret(value) || REF.test(value)) {
      return capture.text(line, ".env");
    }
    const ref = capture.take(provider, value, `.env ${name}`);
    return `${before}${quote}${ref}${quote}${capture.text(line.slice(whole.length), ".env")}`;
  });
  return { text: lines.join("\n"), substitutions: capture.substitutions };
}
