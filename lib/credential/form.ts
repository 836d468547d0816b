/** The shapes that one secret takes in traffic: as it is, escaped, encoded, and inside base64. */
import { Buffer } from "node:buffer";

/** Fewest characters of a secret: shorter text is found by chance. */
export const SECRET_MIN = 12;
/** Most characters of a secret; header fields are not longer either. */
export const SECRET_MAX = 4096;

/** Visible ASCII: what a header field can carry, and what no white space hides. */
const SECRET = /^[\x21-\x7e]+$/;

/** Whether text can be kept as a secret at all. */
export function isSecret(text: string): boolean {
  return text.length >= SECRET_MIN && text.length <= SECRET_MAX && SECRET.test(text);
}

/** A secret as JSON text holds it. */
export function jsonForm(secret: string): string {
  return JSON.stringify(secret).slice(1, -1);
}

/** Every text by which a secret is recognized; the secret itself first. */
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
 * The characters that base64 gives to `secret` when some bytes (their number modulo 3 is `before`) stand before it,
 * without those that its neighbours have a part in.
 */
function insideBase64(secret: string, before: number): string {
  const text = Buffer.from("\0".repeat(before) + secret, "latin1").toString("base64");
  const first = Math.ceil((before * 8) / 6);
  const last = Math.floor(((before + secret.length) * 8) / 6);
  return text.slice(first, last);
}
