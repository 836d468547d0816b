/**
 * Secrets, and the forms that they take in traffic: escaped, or encoded
 * (docs/design/contracts/09-credentials.md §9).
 */
import { Buffer } from "node:buffer";

/** Fewest characters of a secret: shorter text would match by chance. */
export const SECRET_MIN = 12;
/** Most characters of a secret, the limit of header fields too. */
export const SECRET_MAX = 4096;

/** Visible ASCII without white space, the characters a header field can carry. */
const SECRET = /^[\x21-\x7e]+$/;

/** True for a text that can be stored as a secret. */
export function isSecret(text: string): boolean {
  return text.length >= SECRET_MIN && text.length <= SECRET_MAX && SECRET.test(text);
}

/** A secret as it is within a JSON string, without the quotes. */
export function jsonForm(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

/** A form with the name of its coding; without one, the secret as it is. */
export type Form = [text: string, coding?: string];

/** Name of the codings that keep the characters of a secret, and put others between or before them. */
const ESCAPES = "escapes";

/** Forms of a secret that are searched in the text as it came, upper and lower case being the same. */
export function plainForms(secret: string): Form[] {
  const json = jsonForm(secret);
  const coded = new Set([json, json.replaceAll("/", "\\/"), encodeURIComponent(secret)]);
  coded.delete(secret);
  return [[secret], ...[...coded].map((form): Form => [form, ESCAPES])];
}

/** Forms of a secret that are searched in folded text ({@linkcode fold}): each stands for many spellings. */
export function foldedForms(secret: string): Form[] {
  // Folding drops the NULs of plain UTF-16, but encoded ones are part of the code.
  const utf16 = [...secret].join("\0");
  return [[secret, ESCAPES], ...encodedForms(secret), ...encodedForms(utf16)];
}

function encodedForms(text: string): Form[] {
  // Base64 encodes three bytes at once, so its text depends on how many bytes of the first three come before.
  return [
    ...[0, 1, 2].map((before): Form => [insideBase64(text, before), "base64"]),
    [Buffer.from(text, "latin1").toString("hex"), "hex"],
  ];
}

/** Base64 of a text behind `before` bytes, without the characters that neighbouring bytes have a share in. */
function insideBase64(text: string, before: number): string {
  const whole = Buffer.from("\0".repeat(before) + text, "latin1").toString("base64");
  const first = Math.ceil((before * 8) / 6);
  const end = Math.floor(((before + text.length) * 8) / 6);
  return whole.slice(first, end);
}
