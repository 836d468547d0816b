/** Secrets recognized by their shape (docs/contracts.md §9). */
import type { Provider } from "./provider.ts";

/** Most characters of one token; real ones have a few hundred at most. */
export const TOKEN_MAX = 1024;

interface Shape {
  provider: Provider;
  prefix: string;
  /** pattern of the rest, of `[A-Za-z0-9_-]` only */
  rest: string;
  /** pattern of the rest cut off by the end of a chunk */
  part: string;
}

/** Token shapes in matching order: `sk-ant-` before `sk-`, or Anthropic's tokens would match as OpenAI's. */
const SHAPES: Shape[] = [
  { provider: "anthropic", prefix: "sk-ant-", rest: `[\\w-]{16,${TOKEN_MAX}}`, part: "[\\w-]*" },
  // A digit is required, since hyphenated words can also follow sk-.
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

const escapeDots = (text: string) => text.replaceAll(".", "\\.");

/** Pattern of a token in text, not within a longer word. */
export const TOKEN_IN_TEXT = `(?<![\\w-])(?:${
  SHAPES.map(({ prefix, rest }) => escapeDots(prefix) + rest).join("|")
})`;

/** Pattern of a text end that may be the beginning of a token. */
export const TOKEN_PART = `(?<![\\w-])(?:${
  SHAPES.map(({ prefix, part }) => `${escapeDots(prefix)}${part}|${prefixesOf(prefix)}`).join("|")
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
