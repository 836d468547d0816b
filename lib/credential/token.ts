/** Secrets recognized by their shape (docs/design/contracts/09-credentials.md §9). */
import type { Provider } from "./provider.ts";

/** Most characters of one token; real ones have a few hundred at most. */
export const TOKEN_MAX = 1024;

interface Shape {
  provider: Provider;
  prefix: string;
  /** pattern of one character of the rest */
  char: string;
  /** fewest and most characters of the rest */
  least: number;
  most: number;
  /** pattern that the rest begins with as well */
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

const escapeDots = (text: string) => text.replaceAll(".", "\\.");

/** Pattern of a token in text, not within a longer word. */
export const TOKEN_IN_TEXT = `(?<![\\w-])(?:${
  SHAPES.map(({ prefix, ahead = "", char, least, most }) =>
    `${escapeDots(prefix)}${ahead}${char}{${least},${most}}`
  ).join("|")
})`;

/** Pattern of a text end that may be the beginning of a token. */
export const TOKEN_PART = `(?<![\\w-])(?:${
  SHAPES.map(({ prefix, char }) => `${escapeDots(prefix)}${char}*|${prefixesOf(prefix)}`).join("|")
})`;

/** `s|sk|sk-` for `sk-`. */
function prefixesOf(prefix: string): string {
  return Array.from(prefix, (_, at) => escapeDots(prefix.slice(0, at + 1))).join("|");
}

const WHOLE = new RegExp(`^${TOKEN_IN_TEXT}$`);

/** Provider of a token, by its shape. */
export function providerOfToken(token: string): Provider | undefined {
  if (!WHOLE.test(token)) return undefined;
  return SHAPES.find(({ prefix }) => token.startsWith(prefix))?.provider;
}
