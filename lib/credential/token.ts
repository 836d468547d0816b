/** Secrets told by what they look like (contracts.md §9). */
import type { Provider } from "./provider.ts";

/** Longest run of characters that is taken for one token; real ones have at most some hundreds. */
export const TOKEN_MAX = 1024;

interface Shape {
  provider: Provider;
  prefix: string;
  /** what must follow the prefix, of `[A-Za-z0-9_-]` only */
  rest: string;
  /** the same, cut off anywhere by the end of a chunk */
  part: string;
}

/** In the order in which they are tried: `sk-ant-` before `sk-`, or Anthropic's would be OpenAI's. */
const SHAPES: Shape[] = [
  { provider: "anthropic", prefix: "sk-ant-", rest: `[\\w-]{16,${TOKEN_MAX}}`, part: "[\\w-]*" },
  // A word that ends in sk- may be followed by more words, hence the digit.
  {
    provider: "openai",
    prefix: "sk-",
    rest: `(?=[A-Za-z_-]{0,99}\\d)[\\w-]{20,${TOKEN_MAX}}`,
    part: "[\\w-]*",
  },
  { provider: "google", prefix: "AIza", rest: "[\\w-]{30,64}", part: "[\\w-]*" },
  { provider: "google", prefix: "ya29.", rest: `[\\w-]{20,${TOKEN_MAX}}`, part: "[\\w-]*" },
  ...["ghp_", "gho_", "ghs_", "ghu_", "ghr_"].map((prefix): Shape => ({
    provider: "github",
    prefix,
    rest: "[A-Za-z0-9]{20,255}",
    part: "[A-Za-z0-9]*",
  })),
  { provider: "github", prefix: "github_pat_", rest: "\\w{20,255}", part: "\\w*" },
];

const escaped = (text: string) => text.replaceAll(".", "\\.");

/** A token in text; what stands before it is no part of a longer word. */
export const TOKEN_IN_TEXT = `(?<![\\w-])(?:${
  SHAPES.map(({ prefix, rest }) => escaped(prefix) + rest).join("|")
})`;

/** The end of a text that may be the beginning of a token. */
export const TOKEN_PART = `(?<![\\w-])(?:${
  SHAPES.map(({ prefix, part }) => `${escaped(prefix)}${part}|${beginnings(prefix)}`).join("|")
})`;

/** `s|sk|sk-` of `sk-`. */
function beginnings(prefix: string): string {
  return Array.from(prefix, (_, at) => escaped(prefix.slice(0, at + 1))).join("|");
}

const WHOLE = new RegExp(`^${TOKEN_IN_TEXT}$`);

/** The provider that a token's shape names. */
export function providerOfToken(token: string): Provider | undefined {
  if (!WHOLE.test(token)) return undefined;
  return SHAPES.find(({ prefix }) => token.startsWith(prefix))?.provider;
}
