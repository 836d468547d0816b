/** Forms of one secret in traffic: plain, escaped, in hex, and inside base64. */
import { Buffer } from "node:buffer";

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
