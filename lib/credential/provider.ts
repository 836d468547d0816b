/**
 * Providers (docs/design/contracts/09-credentials.md §9): their hosts, and the places where their secrets may
 * be sent.
 */
import { memoize } from "../base/memo/mod.ts";
import { lenientPath } from "../base/url/mod.ts";

export const PROVIDERS = ["anthropic", "openai", "google", "github", "mcp"] as const;
export type Provider = typeof PROVIDERS[number];

interface ProviderFacts {
  /** hosts owned by the provider; `*` stands for one label or a part of it */
  hosts: string[];
  /** headers that may carry its secrets upstream, lower case */
  headers: string[];
  /** query parameters that may carry its secrets */
  queries: string[];
  /** `host/path` of OAuth token endpoints, the only places whose bodies may carry a secret */
  tokens: string[];
  /** environment variables from which its clients read a secret */
  env: string[];
}

/**
 * Only hosts where no third party can read a request: `storage.googleapis.com` is also Google's, but serves
 * any customer's content.
 */
const FACTS: Record<Provider, ProviderFacts> = {
  anthropic: {
    hosts: ["api.anthropic.com", "console.anthropic.com", "platform.claude.com"],
    headers: ["authorization", "x-api-key"],
    queries: [],
    tokens: ["console.anthropic.com/v1/oauth/token", "platform.claude.com/v1/oauth/token"],
    env: ["ANTHROPIC_API_KEY", "ANTHROPIC_AUTH_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
  },
  openai: {
    hosts: ["api.openai.com", "us.api.openai.com", "eu.api.openai.com", "auth.openai.com", "chatgpt.com"],
    headers: ["authorization"],
    queries: [],
    tokens: ["auth.openai.com/oauth/token"],
    env: ["OPENAI_API_KEY"],
  },
  google: {
    hosts: [
      "generativelanguage.googleapis.com",
      "aiplatform.googleapis.com",
      "*-aiplatform.googleapis.com",
      "cloudcode-pa.googleapis.com",
      "oauth2.googleapis.com",
      "www.googleapis.com",
      "accounts.google.com",
    ],
    headers: ["authorization", "x-goog-api-key"],
    queries: ["key", "access_token"],
    tokens: ["oauth2.googleapis.com/token", "accounts.google.com/o/oauth2/token"],
    env: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
  },
  github: {
    hosts: [
      "github.com",
      "api.github.com",
      "codeload.github.com",
      "uploads.github.com",
      "gist.github.com",
      "raw.githubusercontent.com",
      "ghcr.io",
      "npm.pkg.github.com",
      "models.github.ai",
      "api.githubcopilot.com",
    ],
    headers: ["authorization"],
    queries: [],
    tokens: ["github.com/login/oauth/access_token"],
    env: ["GITHUB_TOKEN", "GH_TOKEN"],
  },
  // Hosts of an mcp credential are named by the user who adds it.
  mcp: { hosts: [], headers: ["authorization", "x-api-key"], queries: [], tokens: [], env: [] },
};

/** Headers whose value is a secret in any shape (docs/design/contracts/09-credentials.md §9). */
export const CREDENTIAL_HEADERS: ReadonlySet<string> = new Set(
  PROVIDERS.flatMap((name) => FACTS[name].headers),
);
/** Query parameters whose value is a secret in any shape. */
export const CREDENTIAL_QUERIES: ReadonlySet<string> = new Set(
  PROVIDERS.flatMap((name) => FACTS[name].queries),
);

const OWNERS = new Map<string, Provider>(
  PROVIDERS.flatMap((name) =>
    FACTS[name].hosts.filter((host) => !host.includes("*")).map((host) => [host, name] as const)
  ),
);
const PATTERNS = PROVIDERS.flatMap((name) =>
  FACTS[name].hosts.filter((host) => host.includes("*")).map((host) => ({
    name,
    pattern: new RegExp(`^${host.replaceAll(".", "\\.").replace("*", "[a-z0-9-]{1,63}")}$`),
  }))
);

export function isProvider(name: string): name is Provider {
  return (PROVIDERS as readonly string[]).includes(name);
}

/** Normalizes a host for comparison: lower case, without the root's dot. */
export function plainHost(host: string): string {
  const name = host.toLowerCase();
  return name.endsWith(".") ? name.slice(0, -1) : name;
}

/** Provider that owns a host by name; hosts of `mcp` are bound to each credential instead. */
export const ownerOf = memoize((host: string): Provider | undefined => {
  const name = plainHost(host);
  return OWNERS.get(name) ?? PATTERNS.find(({ pattern }) => pattern.test(name))?.name;
});

/** Tests whether a secret of the provider may be sent in this header. */
export function allowsHeader(provider: Provider, header: string): boolean {
  return FACTS[provider].headers.includes(header.toLowerCase());
}

/** Tests whether a secret of the provider may be sent in this query parameter. */
export function allowsQuery(provider: Provider, parameter: string): boolean {
  return FACTS[provider].queries.includes(parameter);
}

/** Provider whose OAuth token endpoint this is, exactly: a request may carry a secret there. */
export function tokenEndpointOf(host: string, path: string): Provider | undefined {
  const place = plainHost(host) + path;
  return PROVIDERS.find((name) => FACTS[name].tokens.includes(place));
}

/**
 * Provider whose OAuth token endpoint a server may take this for, however the path is written: its answer may hold
 * tokens.
 */
export function tokenAnswerOf(host: string, path: string): Provider | undefined {
  const name = plainHost(host);
  if (!TOKEN_HOSTS.has(name)) return undefined;
  const place = name + lenientPath(path).toLowerCase();
  return PROVIDERS.find((provider) => FACTS[provider].tokens.some((token) => isBelow(place, token)));
}

const TOKEN_HOSTS = new Set(
  PROVIDERS.flatMap((name) => FACTS[name].tokens.map((token) => token.split("/")[0])),
);

/** The place itself, or with anything but a longer word behind it: `token/`, `token.json`, `token,x`. */
function isBelow(place: string, token: string): boolean {
  return place.startsWith(token) && !/^[a-z0-9_-]/.test(place.slice(token.length));
}

/** Environment variables of a provider's clients. */
export function envNamesOf(provider: Provider): readonly string[] {
  return FACTS[provider].env;
}

/** Provider whose clients read an environment variable. */
export function providerOfEnv(name: string): Provider | undefined {
  return PROVIDERS.find((provider) => FACTS[provider].env.includes(name));
}
