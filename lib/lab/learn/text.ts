/**
 * Guests' text in CEL, comments and ids. It is all printable ASCII, so that a profile shows its exact
 * matches.
 */

/** Most characters of a text that a rule names. */
export const VALUE_MAX = 4096;

/** Quotes text as CEL. The result has no single quote either: a literal string of TOML holds it as it is. */
export function quote(text: string): string {
  return `"${escaped(text, /["'\\]/)}"`;
}

/** Text in a comment, a name or a message: one line, cut after `max` characters. */
export function shown(text: string, max = 200): string {
  const whole = escaped(text.toWellFormed(), /\\/);
  return whole.length > max ? `${whole.slice(0, max - 3)}...` : whole;
}

/**
 * True for a text that a rule can name: no lone surrogate, which neither CEL nor TOML can write, not too
 * long, and without the mark of a secret, which replaces the sent value in the record.
 */
export function canName(text: string): boolean {
  return text.length <= VALUE_MAX && text.isWellFormed() && !REDACTED.test(text);
}

const REDACTED = /credential:blake3:|\[redacted\]/;

/** The part of a rule's id that is made of a guest's text. */
export function slug(...words: string[]): string {
  const text = words.join("-").toLowerCase().replace(/[^a-z0-9.]+/g, "-").replace(/^[-.]+|[-.]+$/g, "");
  return text.slice(0, 60) || "other";
}

function escaped(text: string, special: RegExp): string {
  return Array.from(text, (char) => {
    const code = char.codePointAt(0)!;
    if (code >= 0x20 && code < 0x7f && !special.test(char)) return char;
    return code > 0xffff ? `\\U${hex(code, 8)}` : `\\u${hex(code, 4)}`;
  }).join("");
}

const hex = (code: number, digits: number) => code.toString(16).padStart(digits, "0");
