import type { Digest } from "../hash/mod.ts";

/** Bytes that are expected. */
export interface Content {
  /** `bytes` */
  size: number;
  /** 64 hex characters */
  blake3: string;
  /** 64 hex characters */
  sha256?: string;
}

/** Ends a digest. @returns the difference from the expected values */
export function differenceOf(digest: Digest, { size, blake3, sha256 }: Content): string | undefined {
  if (digest.size !== size) return `expected ${size} bytes, got ${digest.size > size ? "more" : digest.size}`;
  const actual = digest.digest();
  if (actual.blake3 !== blake3) return `expected BLAKE3 ${blake3}, got ${actual.blake3}`;
  if (sha256 === undefined || actual.sha256 === sha256) return undefined;
  return `expected SHA-256 ${sha256}, got ${actual.sha256}`;
}
