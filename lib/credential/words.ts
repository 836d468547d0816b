/**
 * Words of a command line that look like secrets: no error repeats them
 * (docs/design/contracts/13-command-line.md §13).
 */
import { SbxError } from "../base/error/mod.ts";
import { bitsOf, hasRun, isUuid } from "../base/redact/mod.ts";
import { REF } from "./ref.ts";
import { REDACTED } from "./scrub.ts";
import { TOKEN_IN_TEXT } from "./token.ts";

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
  for (const word of text.split(/[\s"'`]+/)) {
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
