/**
 * Tokens of providers: recognized in text by their shape, and decoys that have it
 * (docs/design/contracts/09-credentials.md §9).
 */
import type { Provider } from "./provider.ts";

/** Most characters of one token; real ones have a few hundred at most. */
export const TOKEN_MAX = 1024;

/** Shape of a token: a prefix, and a rest of any such characters. */
interface Shape {
  provider: Provider;
  prefix: string;
  /** pattern of one character of the rest */
  char: string;
  /** fewest and most characters of the rest */
  least: number;
  most: number;
  /** lookahead that must hold where the rest begins */
  ahead?: string;
}

/** Token shapes in matching order: `sk-ant-` before `sk-`, or Anthropic's tokens would match as OpenAI's. */
const SHAPES: Shape[] = [
  { provider: "anthropic", prefix: "sk-ant-", char: "[\\w-]", least: 16, most: TOKEN_MAX },
  // A digit is required, since hyphenated words can also follow sk-.
  {
    provider: "openai",
    prefix: "sk-",
    char: "[\\w-]",
    least: 20,
    most: TOKEN_MAX,
    ahead: "(?=[A-Za-z_-]{0,99}\\d)",
  },
  { provider: "google", prefix: "AIza", char: "[\\w-]", least: 30, most: 64 },
  { provider: "google", prefix: "ya29.", char: "[\\w-]", least: 20, most: TOKEN_MAX },
  ...["ghp_", "gho_", "ghs_", "ghu_", "ghr_"].map((prefix): Shape => ({
    provider: "github",
    prefix,
    char: "[A-Za-z0-9]",
    least: 20,
    most: 255,
  })),
  { provider: "github", prefix: "github_pat_", char: "\\w", least: 20, most: 255 },
];

/** Fewest characters of a token; a ref and a JSON Web Token have more. */
export const TOKEN_MIN = Math.min(...SHAPES.map(({ prefix, least }) => prefix.length + least));

/** Pattern of the place where a token begins: not within a longer word. */
const BEGIN = "(?<![\\w-])";

/** Pattern of a token in text. */
export const TOKEN_IN_TEXT = `${BEGIN}(?:${
  SHAPES.map(({ prefix, ahead = "", char, least, most }) =>
    `${patternOf(prefix)}${ahead}${char}{${least},${most}}`
  ).join("|")
})`;

/** Pattern of the beginning of a token, for the end of a text whose rest has not come yet. */
export const TOKEN_PART = `${BEGIN}(?:${
  SHAPES.map(({ prefix, char }) => `${patternOf(prefix)}${char}*|${beginningsOf(prefix)}`).join("|")
})`;

/** Pattern that matches a prefix itself. */
function patternOf(prefix: string): string {
  return prefix.replaceAll(".", "\\.");
}

/** Pattern of every beginning of a prefix: `s|sk|sk-` for `sk-`. */
function beginningsOf(prefix: string): string {
  return Array.from(prefix, (_, at) => patternOf(prefix.slice(0, at + 1))).join("|");
}

const WHOLE_TOKEN = new RegExp(`^${TOKEN_IN_TEXT}$`);

/** Provider of a token, by its shape; `undefined` for a text that has none of the shapes. */
export function providerOfToken(token: string): Provider | undefined {
  if (!WHOLE_TOKEN.test(token)) return undefined;
  return SHAPES.find(({ prefix }) => token.startsWith(prefix))?.provider;
}

/** Generates a decoy: it grants nothing, and looks exactly like a real secret of the provider. */
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

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";

/** Random letters and digits, each equally likely. */
function random(length: number): string {
  let text = "";
  while (text.length < length) {
    // Larger bytes would favour the first letters of the alphabet.
    const [byte] = crypto.getRandomValues(new Uint8Array(1));
    if (byte < 4 * ALPHABET.length) text += ALPHABET[byte % ALPHABET.length];
  }
  return text;
}
