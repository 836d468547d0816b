import { blake3 } from "../../base/hash/mod.ts";

/** UUID (version 8, RFC 9562) of a text, so that the same content has the same UUID. */
export function hashUuid(text: string): string {
  const hex = blake3(text);
  const variant = "89ab"[parseInt(hex[16], 16) & 3];
  return [
    hex.slice(0, 8),
    hex.slice(8, 12),
    `8${hex.slice(13, 16)}`,
    `${variant}${hex.slice(17, 20)}`,
    hex.slice(20, 32),
  ].join("-");
}
