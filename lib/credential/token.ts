/**
 * Tokens of providers: recognized in text by their shape, and decoys that have it
 * (docs/design/contracts/09-credentials.md §9).
 */
import { type Definition, DEFINITIONS, type KeyChars, type KeyShape, type Provider } from "./provider.ts";

/** Most characters of one token; real ones have a few hundred at most. */
export const TOKEN_MAX = 1024;

/** Characters of a key as a pattern. */
const CHARS: Record<KeyChars, string> = {
  alnum: "[A-Za-z0-9]",
  word: "\\w",
  "word-": "[\\w-]",
  base64: "[A-Za-z0-9+/=]",
  base64url: "[\\w=-]",
  base64_: "[A-Za-z0-9+/=_]",
};
/** Lookahead of a digit among the first characters. */
const DIGIT_AHEAD = "(?=[A-Za-z_-]{0,99}\\d)";

/** End of a token of one length: a longer word is another thing, such as a piece of an image in base64. */
const TOKEN_END = "(?![A-Za-z0-9+/])";

/** Pattern of the place where a token begins: not within a longer word. */
export const TOKEN_BEGIN = "(?<![\\w-])";

/** Shapes of the keys of a catalogue's providers. */
export class TokenShapes {
  /** of the providers that every home knows */
  static readonly BUILT_IN: TokenShapes = new TokenShapes(DEFINITIONS);

  /** the longest prefix first: `sk-ant-` before `sk-`, or Anthropic's tokens would match as OpenAI's */
  readonly #shapes: PreparedShape[];
  readonly #whole: RegExp;
  /** its first characters */
  readonly prefixes: readonly string[];
  /** pattern of a token in text */
  readonly inText: string;
  /** pattern of the beginning of a token, for the end of a text whose rest has not come yet */
  readonly part: string;
  /** fewest characters of a token; a ref and a JSON Web Token have more */
  readonly least: number;

  constructor(definitions: readonly Definition[]) {
    this.#shapes = definitions
      .flatMap(({ id, keys = [] }) => keys.map((shape) => prepared(id, shape)))
      .toSorted((a, b) => b.prefix.length - a.prefix.length);
    const anyOf = (pattern: (shape: KeyShape) => string) =>
      `${TOKEN_BEGIN}(?:${this.#shapes.map(pattern).join("|")})`;
    this.inText = anyOf(({ prefix, chars, min, max, digit }) =>
      `${patternOf(prefix)}${digit ? DIGIT_AHEAD : ""}${CHARS[chars]}{${min},${max}}${
        min === max ? TOKEN_END : ""
      }`
    );
    this.part = anyOf(({ prefix, chars }) => `${patternOf(prefix)}${CHARS[chars]}*|${beginningsOf(prefix)}`);
    this.prefixes = this.#shapes.map(({ prefix }) => prefix);
    this.least = Math.min(...this.#shapes.map(({ prefix, min }) => prefix.length + min));
    this.#whole = new RegExp(`^${this.inText}$`);
  }

  /** Provider of a token, by its shape; `undefined` for a text that has none of the shapes. */
  providerOf(token: string): Provider | undefined {
    return this.#shapeOf(token)?.provider;
  }

  /** True for a token whose shape other providers' keys have too. */
  isLoose(token: string): boolean {
    return this.#shapeOf(token)?.loose === true;
  }

  /** True for a token of an OAuth client. */
  isClientToken(token: string): boolean {
    return this.#shapeOf(token)?.token === true;
  }

  #shapeOf(token: string): PreparedShape | undefined {
    if (!this.#whole.test(token)) return undefined;
    return this.#shapes.find(({ prefix, rest }) =>
      token.startsWith(prefix) && rest.test(token.slice(prefix.length))
    );
  }
}

/** A shape with its provider. */
interface PreparedShape extends KeyShape {
  provider: Provider;
  /** a whole rest: a shape is asked for with each token that is found */
  rest: RegExp;
}

function prepared(provider: Provider, shape: KeyShape): PreparedShape {
  const { chars, min, max } = shape;
  return { ...shape, provider, rest: new RegExp(`^${CHARS[chars]}{${min},${max}}$`) };
}

/** Pattern of one in text. */
export const TOKEN_IN_TEXT = TokenShapes.BUILT_IN.inText;

/** Provider of a token, by the shapes that every home knows. */
export function providerOfToken(token: string): Provider | undefined {
  return TokenShapes.BUILT_IN.providerOf(token);
}

/** True for a token of an OAuth client, which is no API key. */
export function isClientToken(token: string): boolean {
  return TokenShapes.BUILT_IN.isClientToken(token);
}

/** Pattern that matches a prefix itself. */
function patternOf(prefix: string): string {
  return prefix.replaceAll(".", "\\.");
}

/** Pattern of every beginning of a prefix: `s|sk|sk-` for `sk-`. */
function beginningsOf(prefix: string): string {
  return Array.from(prefix, (_, at) => patternOf(prefix.slice(0, at + 1))).join("|");
}

/** Rests of decoys, as long as in real keys, after which they are made. */
const DECOYS: Record<Provider, () => string> = {
  anthropic: () => `sk-ant-api03-${random(93)}AA`,
  openai: () => `sk-proj-${random(74)}T3BlbkFJ${random(74)}`,
  google: () => `AIza${random(35)}`,
  github: () => `ghp_${random(36)}`,
};

/** Generates a decoy: it grants nothing, and looks exactly like a real secret of the provider. */
export function decoySecret(provider: Provider): string {
  if (Object.hasOwn(DECOYS, provider)) return DECOYS[provider]();
  if (provider === "aws") return `AKIA${random(16).toUpperCase()}:${random(40)}`;
  const [shape] = DEFINITIONS.find(({ id }) => id === provider)?.keys ?? [];
  return shape ? shape.prefix + random(Math.max(shape.min, Math.min(40, shape.max))) : random(43);
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
