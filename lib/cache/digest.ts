/** Digests that vouch for bytes. SHA-1 and MD5 are not among them: two files with one digest can be made. */
import { Buffer } from "node:buffer";
import { createHash } from "node:crypto";

/** Length of each digest, in hex characters. */
const LENGTHS = { "sha256": 64, "sha512": 128, "blake2b-256": 64 } as const;
export type Algorithm = keyof typeof LENGTHS;

/** `ALGORITHM:HEX` */
export type Digest = `${Algorithm}:${string}`;

/** Makes a digest; `undefined` unless its hex characters are as many as the algorithm has. */
export function digestOf(algorithm: string, hex: string): Digest | undefined {
  if (!isAlgorithm(algorithm)) return undefined;
  const isWhole = hex.length === LENGTHS[algorithm] && /^[0-9a-f]+$/.test(hex);
  return isWhole ? `${algorithm}:${hex}` : undefined;
}

/** Reads a digest as its text has it. */
export function parseDigest(text: unknown): Digest | undefined {
  const [, algorithm, hex] = /^([a-z0-9-]+):([0-9a-f]+)$/.exec(String(text)) ?? [];
  return algorithm === undefined ? undefined : digestOf(algorithm, hex);
}

/** Digest of an integrity text (`sha512-BASE64 …`, W3C SRI); weaker algorithms do not count. */
export function integrityDigest(text: string): Digest | undefined {
  const digests = text.split(/\s+/).map((each) => {
    const [, algorithm, base64] = /^(sha256|sha512)-([A-Za-z0-9+/]+={0,2})(?:\?.*)?$/.exec(each) ?? [];
    return algorithm === undefined
      ? undefined
      : digestOf(algorithm, Buffer.from(base64, "base64").toString("hex"));
  });
  return digests.find((digest) => digest?.startsWith("sha512:")) ?? digests.find((digest) => digest);
}

/** Bytes that arrive in pieces, and their digest. */
export interface Hasher {
  update(bytes: Uint8Array): void;
  digest(): Digest;
}

export async function hasherOf(algorithm: Algorithm): Promise<Hasher> {
  if (algorithm !== "blake2b-256") {
    const hash = createHash(algorithm);
    return {
      update: (bytes) => void hash.update(bytes),
      digest: () => `${algorithm}:${hash.digest("hex")}`,
    };
  }
  // Node has BLAKE2b of 512 bits only, which is another function, not a longer one.
  const { createBLAKE2b } = await import("hash-wasm");
  const hash = await createBLAKE2b(256);
  return { update: (bytes) => void hash.update(bytes), digest: () => `blake2b-256:${hash.digest("hex")}` };
}

export function algorithmOf(digest: Digest): Algorithm {
  return digest.slice(0, digest.indexOf(":")) as Algorithm;
}

function isAlgorithm(text: string): text is Algorithm {
  return Object.hasOwn(LENGTHS, text);
}
