/** Secrets in text: their forms in traffic, their refs, and the shapes of tokens. */
import { Buffer } from "node:buffer";
import { blake3 } from "../base/hash/mod.ts";
import type { Provider } from "./provider.ts";

/** Fewest characters of a secret: shorter text would match by chance. */
export const SECRET_MIN = 12;
/** Most characters of a secret, the limit of header fields too. */
export const SECRET_MAX = 4096;

/** Visible ASCII without white space, the characters a header field can carry. */
const SECRET = /^[\x21-\x7e]+$/;

/** Tests whether a text can be stored as a secret. */
export function isSecret(text: string): boolean {
  return text.length >= SECRET_MIN && text.length <= SECRET_MAX && SECRET.test(text);
}

/** Secret escaped for a JSON string. */
export function jsonForm(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

/** Forms of a secret that are searched as they are, in any case. */
export function plainForms(secret: string): string[] {
  const json = jsonForm(secret);
  return [...new Set([secret, json, json.replaceAll("/", "\\/"), encodeURIComponent(secret)])];
}

/** Forms of a secret that are searched in folded text ({@linkcode fold}): each stands for many spellings. */
export function foldedForms(secret: string): string[] {
  const utf16 = [...secret].join("\0");
  return [
    secret,
    ...[secret, utf16].flatMap((text) => [
      ...[0, 1, 2].map((before) => insideBase64(text, before)),
      Buffer.from(text, "latin1").toString("hex"),
    ]),
  ];
}

/**
 * Base64 characters of `secret` after `before` other bytes (modulo 3), without the characters shared with
 * neighbouring bytes.
 */
function insideBase64(secret: string, before: number): string {
  const text = Buffer.from("\0".repeat(before) + secret, "latin1").toString("base64");
  const first = Math.ceil((before * 8) / 6);
  const last = Math.floor(((before + secret.length) * 8) / 6);
  return text.slice(first, last);
}

/** Prefix of every ref (docs/design/contracts/09-credentials.md §9). */
export const REF_PREFIX = "credential:blake3:";
/** A whole ref and nothing else. */
export const REF = /^credential:blake3:[0-9a-f]{64}$/;
/** A ref in text: plain, or with percent-encoded colons as in forms and queries. */
export const REF_IN_TEXT = "credential(?::|%3[Aa])blake3(?::|%3[Aa])[0-9a-f]{64}";

/**
 * Opaque reference of a secret; the same secret of the same provider always has the same ref
 * (docs/design/contracts/09-credentials.md §9).
 */
export function refOf(provider: string, secret: string): string {
  return REF_PREFIX + blake3(`sbx.credential.v1\0${provider}\0${secret}`);
}

/** Removes the percent-encoding of a ref. */
export function plainRef(text: string): string {
  return text.replace(/%3a/gi, ":");
}

// Secrets recognized by their shape (docs/design/contracts/09-credentials.md §9).

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
