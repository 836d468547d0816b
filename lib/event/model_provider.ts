/** Model providers by host, independent of the API used. */
import { memoize } from "../base/memo/mod.ts";

/** Provider of each host; `*.` matches any number of labels. */
const HOSTS: Record<string, string> = {
  "api.anthropic.com": "anthropic",
  "api.openai.com": "openai",
  "*.api.openai.com": "openai",
  "chatgpt.com": "openai",
  "generativelanguage.googleapis.com": "google",
  "generativelanguage.mtls.googleapis.com": "google",
  "cloudcode-pa.googleapis.com": "google",
  "*.openai.azure.com": "azure",
  "*.services.ai.azure.com": "azure",
  "*.cognitiveservices.azure.com": "azure",
  "*.models.ai.azure.com": "azure",
  "models.inference.ai.azure.com": "github",
  "models.github.ai": "github",
  "api.githubcopilot.com": "github",
  "*.githubcopilot.com": "github",
  "openrouter.ai": "openrouter",
  "api.mistral.ai": "mistral",
  "codestral.mistral.ai": "mistral",
  "api.groq.com": "groq",
  "api.deepseek.com": "deepseek",
  "api.x.ai": "xai",
  "*.api.x.ai": "xai",
  "api.together.xyz": "together",
  "api.fireworks.ai": "fireworks",
  "api.cerebras.ai": "cerebras",
  "api.perplexity.ai": "perplexity",
  "ollama.com": "ollama",
};

/** Hosts of Vertex AI: global, regional, for client certificates, and at a region's own endpoint. */
const VERTEX = /^(?:[a-z0-9-]+-)?aiplatform(?:\.mtls|\.[a-z0-9-]+\.rep)?\.googleapis\.com$/;

/**
 * Hosts of Bedrock's runtime: of a region, for FIPS, with IPv6, of a VPC endpoint,
 * and its OpenAI-compatible ones.
 */
const BEDROCK =
  /^(?:[a-z0-9-]+\.)?bedrock-(?:runtime(?:-fips)?|mantle)\.[a-z0-9-]+\.(?:(?:vpce\.)?amazonaws\.com(?:\.cn)?|api\.aws)$/;

/** `provider` of calls to unknown hosts, recognized by their shape. */
export const UNKNOWN_PROVIDER = "unknown";

/** Finds the provider of a host. */
export const providerOf = memoize((host: string): string | undefined => {
  const name = host.toLowerCase().replace(/\.$/, "");
  if (VERTEX.test(name)) return "google";
  if (BEDROCK.test(name)) return "bedrock";
  if (Object.hasOwn(HOSTS, name)) return HOSTS[name];
  for (let dot = name.indexOf("."); dot >= 0; dot = name.indexOf(".", dot + 1)) {
    const key = `*${name.slice(dot)}`;
    if (Object.hasOwn(HOSTS, key)) return HOSTS[key];
  }
});
