/**
 * The trust document: public keys whose signatures a machine believes. It comes with the package or from corp, never from
 * the release server. Keys rotate by several of them: machines get the new key beside the old one, releases are signed
 * with both, then the old one goes (docs/guides/releases.md).
 */
import { z } from "zod";
import { KEYS_MAX } from "../limit.ts";
import { parseDocument } from "../read.ts";
import { keyIdOf, PUBLIC_KEY_BYTES, type PublicKey } from "./ed25519.ts";

/** Largest trust document, in `bytes`. */
const TRUST_BYTES_MAX = 64 * 1024;

const rawKey = z.base64().transform((text) => Uint8Array.fromBase64(text)).refine(
  (raw) => raw.length === PUBLIC_KEY_BYTES,
  `must be ${PUBLIC_KEY_BYTES} bytes in base64`,
);

const TrustedKey = z.strictObject({ id: z.string(), public_key: rawKey }).refine(
  ({ id, public_key }) => id === keyIdOf(public_key),
  "the id is not the SHA-256 of the key",
);

/** `sbx.release_trust.v1` (docs/design/contracts/10-release.md §10, "Signatures"). */
export const TrustDocument = z.strictObject({
  schema: z.literal("sbx.release_trust.v1"),
  keys: z.array(TrustedKey).min(1).max(KEYS_MAX).refine(
    (keys) => new Set(keys.map(({ id }) => id)).size === keys.length,
    "a key is there twice",
  ),
});

/** Parses a trust document. @throws {SbxError} `release.invalid` */
export function parseTrust(text: string, source: string): PublicKey[] {
  const bytes = new TextEncoder().encode(text);
  const { keys } = parseDocument(
    { name: "trust document", schema: TrustDocument, max: TRUST_BYTES_MAX },
    bytes,
    source,
  );
  return keys.map(({ id, public_key }) => ({ id, raw: public_key }));
}

/** Writes a trust document. */
export function formatTrust(keys: readonly PublicKey[]): string {
  const document = {
    schema: "sbx.release_trust.v1",
    keys: keys.map(({ id, raw }) => ({ id, public_key: raw.toBase64() })),
  };
  return JSON.stringify(document, null, 2) + "\n";
}
