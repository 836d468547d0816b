import { SbxError } from "../base/error/mod.ts";
import { Digest, HASH_CHUNK } from "../base/hash/mod.ts";

/** Digests of an artifact (docs/design/contracts/10-release.md §10, "Verification"). */
export interface Digests {
  /** 64 hex characters */
  sha256: string;
  /** 64 hex characters */
  blake3: string;
}

/** Expected digests of an artifact. */
export interface Expected extends Digests {
  /** size, where the record names it */
  bytes?: number;
}

/** Digests bytes in memory. */
export function digestBytes(bytes: Uint8Array): Digests & { bytes: number } {
  const digest = new Digest();
  digest.update(bytes);
  return resultOf(digest);
}

/** Digests a file in chunks. @param onBytes callback with the size of each, for a progress bar */
export async function digestFile(
  path: string,
  onBytes?: (bytes: number) => void,
): Promise<Digests & { bytes: number }> {
  using file = await Deno.open(path);
  const digest = new Digest();
  const chunk = new Uint8Array(HASH_CHUNK);
  for (let read = await file.read(chunk); read !== null; read = await file.read(chunk)) {
    digest.update(chunk.subarray(0, read));
    onBytes?.(read);
  }
  return resultOf(digest);
}

function resultOf(digest: Digest): Digests & { bytes: number } {
  const { blake3, sha256 } = digest.digest();
  return { blake3, sha256: sha256!, bytes: digest.size };
}

/** Compares digests. @throws {SbxError} `release.mismatch` (412) */
export function requireDigests(actual: Digests & { bytes: number }, expected: Expected, what: string): void {
  const { bytes, sha256, blake3 } = expected;
  if (bytes !== undefined && actual.bytes !== bytes) {
    throw mismatch(what, `it has ${actual.bytes} bytes, not ${bytes}`);
  }
  if (actual.sha256 !== sha256) throw mismatch(what, `its SHA-256 is ${actual.sha256}, not ${sha256}`);
  if (actual.blake3 !== blake3) throw mismatch(what, `its BLAKE3 is ${actual.blake3}, not ${blake3}`);
}

function mismatch(what: string, problem: string): SbxError {
  return new SbxError("release.mismatch", `${what} is not what its record says: ${problem}`, {
    hint: "the file or the mirror is damaged, or was changed; nothing was installed",
  });
}
