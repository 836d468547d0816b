import type { Provider } from "./provider.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Generates a secret that grants nothing and is indistinguishable from a real one of the provider. */
export function decoySecret(provider: Provider): string {
  switch (provider) {
    case "anthropic":
      return `sk-ant-api03-${random(93)}AA`;
    case "openai":
      return `sk-proj-${random(74)}T3BlbkFJ${random(74)}`;
    case "google":
      return `AIza${random(35)}`;
    case "github":
      return `ghp_${random(36)}`;
    case "mcp":
      return random(43);
  }
}

/** Random letters and digits, uniformly distributed. */
function random(length: number): string {
  let text = "";
  while (text.length < length) {
    const [byte] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < 4 * ALPHABET.length) text += ALPHABET[byte % ALPHABET.length];
  }
  return text;
}
