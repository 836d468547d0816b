/**
 * Texts of a value, and the same value with others: secrets in records are replaced, wherever they are split.
 */
import { isObject } from "../base/object/mod.ts";
import type { SecretMatch } from "./finder.ts";
import { SbxError } from "../base/error/mod.ts";
import { bitsOf, hasRun, isUuid } from "../base/redact/mod.ts";
import { REF } from "./ref.ts";
import { TOKEN_IN_TEXT } from "./token.ts";

/** Placeholder for text that only looks like a secret. */
export const REDACTED = "[redacted]";

/** Texts of a JSON value in order, names of fields included. */
export function textsOf(value: unknown, into: string[] = []): string[] {
  if (typeof value === "string") into.push(value);
  else if (Array.isArray(value)) { for (const item of value) textsOf(item, into); }
  else if (isObject(value)) {
    for (const [name, item] of Object.entries(value)) {
      into.push(name);
      textsOf(item, into);
    }
  }
  return into;
}

/**
 * The texts of {@linkcode textsOf} on lines of their own, but for empty ones: for a
 * search, in a fraction of the time.
 */
export function joinedTexts(value: unknown): string {
  if (typeof value === "string") return value;
  let out = "";
  if (Array.isArray(value)) {
    for (const item of value) if (isText(item)) out += `${out && "\n"}${joinedTexts(item)}`;
  } else if (isObject(value)) {
    for (const name in value) {
      const item = value[name];
      out += `${out && "\n"}${name}`;
      if (isText(item)) out += `\n${joinedTexts(item)}`;
    }
  }
  return out;
}

/** True when a text of {@linkcode textsOf} passes a test. */
export function someText(value: unknown, test: (text: string) => boolean): boolean {
  if (typeof value === "string") return test(value);
  if (Array.isArray(value)) {
    for (const item of value) {
      if (isText(item) && someText(item, test)) return true;
    }
  } else if (isObject(value)) {
    for (const name in value) {
      if (test(name)) return true;
      const item = value[name];
      if (isText(item) && someText(item, test)) return true;
    }
  }
  return false;
}

/** True for values that may have texts. */
function isText(value: unknown): boolean {
  return typeof value === "string" || typeof value === "object" && value !== null;
}

/** The value with other texts, in the order of {@linkcode textsOf}. */
export function withTexts(value: unknown, texts: Iterator<string>): unknown {
  if (typeof value === "string") return texts.next().value;
  if (Array.isArray(value)) return value.map((item) => withTexts(item, texts));
  if (!isObject(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([, item]) => {
      const name = texts.next().value as string;
      return [name, withTexts(item, texts)];
    }),
  );
}

/**
 * Replaces matches in texts.
 *
 * @param matches found in the texts, joined by one character each. A match that spans several texts is
 * replaced in the first of them.
 */
export function scrubTexts(texts: readonly string[], matches: readonly SecretMatch[]): string[] {
  let begin = 0;
  return texts.map((text) => {
    const end = begin + text.length;
    let out = "";
    let at = begin;
    for (const match of matches) {
      if (match.end <= begin || match.start >= end) continue;
      if (match.start >= begin) {
        out += text.slice(at - begin, match.start - begin) + (match.ref ?? REDACTED);
      }
      at = Math.min(match.end, end);
    }
    out += text.slice(at - begin);
    begin = end + 1;
    return out;
  });
}

// Words of a command line that look like secrets: no error repeats them
// (docs/design/contracts/13-command-line.md §13).

/** Fewest characters of a word that looks like a secret; known shapes have more. */
const WORD_MIN = 20;
/** Fewest bits a character of a word with upper case, lower case and digits. */
const WORD_BITS = 3.5;

const TOKEN = new RegExp(TOKEN_IN_TEXT, "g");
const PATH = /^(?:[\w.-]+:)?(?:~|\.{0,2})\//;

/** The error without the words of a command line that look like secrets. */
export function withoutSecretWords(error: SbxError, argv: readonly string[]): SbxError {
  const secrets = [...new Set(argv.flatMap(secretsOf))].sort((a, b) => b.length - a.length);
  const clean = (text: string) => secrets.reduce(conceal, text);
  const { message, hint } = error;
  if (clean(message) === message && (hint === undefined || clean(hint) === hint)) return error;
  // Without its cause, which may repeat them too.
  return new SbxError(error.code, clean(message), {
    ...(hint !== undefined && { hint: clean(hint) }),
  });
}

/** Tests whether a text holds something with the shape of a provider's secrets, or a word of high entropy. */
export function looksSecret(text: string): boolean {
  return secretsOf(text).length > 0;
}

/** Tests whether a text holds something with the shape of a provider's secrets. */
export function holdsToken(text: string): boolean {
  return text.search(TOKEN) >= 0;
}

/** Parts of an argument that look like secrets. */
function secretsOf(argument: string): string[] {
  if (argument.length < WORD_MIN) return [];
  const text = argument.replace(/^-+/, "");
  const found = [...text.matchAll(TOKEN)].map(([token]) => token);
  // Fields, as in id=ID,ref=REF, are words of their own.
  for (const word of text.split(/[\s"'`]+|,(?=\w+=)/)) {
    const [, name, value] = /^(?:(\w+)=)?(.*)$/s.exec(word)!;
    if (name !== undefined && name.length >= WORD_MIN && isRandom(name)) found.push(name);
    const parts = PATH.test(value) ? value.split("/").filter((part) => hasRun(part, WORD_MIN)) : [value];
    found.push(...parts.filter((part) => part.length >= WORD_MIN && isRandom(part)));
  }
  return found;
}

function isRandom(word: string): boolean {
  if (REF.test(word) || isUuid(word)) return false;
  if (hasRun(word)) return true;
  return [/[a-z]/, /[A-Z]/, /[0-9]/].every((kind) => kind.test(word)) && bitsOf(word) >= WORD_BITS;
}

/** Replaces a secret in any case, also as JSON text. */
function conceal(text: string, secret: string): string {
  const forms = new Set([secret, JSON.stringify(secret).slice(1, -1), encodeURIComponent(secret)]);
  return [...forms].reduce(
    (rest, form) => rest.replaceAll(new RegExp(RegExp.escape(form), "gi"), REDACTED),
    text,
  );
}
