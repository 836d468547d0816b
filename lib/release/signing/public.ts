/** Public keys as files: SubjectPublicKeyInfo in PEM, which `openssl pkey -pubin` reads too. */
import { SbxError } from "../../base/error/mod.ts";
import { keyIdOf, type PublicKey } from "../mod.ts";

/** DER before the 32 bytes of an Ed25519 key (RFC 8410). */
const PREFIX = "302a300506032b6570032100";
const PEM = /-----BEGIN PUBLIC KEY-----\s*([A-Za-z0-9+/=\s]+?)\s*-----END PUBLIC KEY-----/g;
/** Largest file of public keys, in `bytes`. */
const FILE_MAX = 64 * 1024;

export function formatPublicKey({ raw }: PublicKey): string {
  const der = Uint8Array.fromHex(PREFIX + raw.toHex());
  return `-----BEGIN PUBLIC KEY-----\n${der.toBase64()}\n-----END PUBLIC KEY-----\n`;
}

/** Parses one public key or several. @throws {SbxError} `attest.key.invalid` */
export function parsePublicKeys(text: string, source: string): PublicKey[] {
  const keys = text.length > FILE_MAX ? [] : [...text.matchAll(PEM)].map(([, body]) => toKey(body));
  if (keys.length > 0 && keys.every((key) => key !== undefined)) return keys;
  throw new SbxError("attest.key.invalid", `${source} has no Ed25519 public key in PEM`, {
    hint: "sbx certify --public-key writes that of a machine",
  });
}

function toKey(body: string): PublicKey | undefined {
  try {
    const hex = Uint8Array.fromBase64(body.replaceAll(/\s/g, "")).toHex();
    if (!hex.startsWith(PREFIX) || hex.length !== PREFIX.length + 64) return undefined;
    const raw = Uint8Array.fromHex(hex.slice(PREFIX.length));
    return { id: keyIdOf(raw), raw };
  } catch {
    return undefined;
  }
}
