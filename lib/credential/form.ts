/** Forms of one secret in traffic: plain, escaped, encoded, and inside base64. */
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

/** Every text form of a secret, the secret itself first. */
export function formsOf(secret: string): string[] {
  const encoded = encodeURIComponent(secret);
  const base64 = [0, 1, 2].map((before) => insideBase64(secret, before));
  const forms = [
    secret,
    jsonForm(secret),
    jsonForm(secret).replaceAll("/", "\\/"),
    encoded,
    encoded.replaceAll(/%[0-9A-F]{2}/g, (hex) => hex.toLowerCase()),
    ...base64,
    ...base64.map((text) => text.replaceAll("+", "-").replaceAll("/", "_")),
  ];
  return [...new Set(forms)].filter((form) => form.length >= SECRET_MIN);
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
