/**
 * Keys of releases. The trust document has the public keys whose signatures a machine believes. It comes
 * with the package or from corp, never from the release server. Keys rotate by several of them: machines get
 * the new key beside the old one, releases are signed with both, then the old one goes
 * (docs/guides/releases.md).
 */
import { dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { accessProblem } from "../../base/home/mod.ts";
import { keyIdOf, PUBLIC_KEY_BYTES, type PublicKey } from "./ed25519.ts";
import { type HmacKey, parseHmacKeys } from "./hmac.ts";
import { z } from "zod";
import { KEYS_MAX } from "../limit.ts";
import { parseDocument } from "../read.ts";

/** Largest file of keys, in `bytes`. */
const FILE_MAX = 64 * 1024;

/**
 * Readers of a key file besides its owner: none for signing keys; for verification keys, everyone if root
 * installed the file, since people's own programs read it; everyone for public keys.
 */
export type KeyUse = "sign" | "verify" | "public";

/**
 * Reads a file of keys. Root or this user must own it, and no one else may write it. The checks apply to the
 * opened file.
 *
 * @throws {SbxError} `release.keys.not_found`, `release.keys.insecure`, `release.keys.unreadable`
 */
export async function readKeyFile(path: string, use: KeyUse): Promise<string> {
  try {
    using file = await Deno.open(path);
    const info = await file.stat();
    requireSafe(path, info, use);
    const bytes = new Uint8Array(FILE_MAX + 1);
    let size = 0;
    for (let read; size < bytes.length && (read = await file.read(bytes.subarray(size))) !== null;) {
      size += read;
    }
    if (size > FILE_MAX) throw insecure(path, `is over ${FILE_MAX} bytes`, "name a file of keys");
    return new TextDecoder().decode(bytes.subarray(0, size));
  } catch (cause) {
    if (cause instanceof SbxError) throw cause;
    const isMissing = cause instanceof Deno.errors.NotFound;
    throw new SbxError(
      isMissing ? "release.keys.not_found" : "release.keys.unreadable",
      `the release keys ${path} ${isMissing ? "are not there" : "cannot be read"}`,
      { cause, hint: "check the path and its permissions" },
    );
  }
}

function requireSafe(path: string, info: Deno.FileInfo, use: KeyUse): void {
  const refused = accessProblem(path, info, {
    keep: use === "public" ? "unchanged" : "secret",
    root: use === "verify" ? "shares" : "owns",
  });
  if (refused) throw insecure(path, refused.problem, refused.hint);
}

function insecure(path: string, problem: string, hint: string): SbxError {
  return new SbxError("release.keys.insecure", `${path} ${problem}; sbx does not use it`, { hint });
}

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

/** Trust document as a package installs it. */
export const MANAGED_TRUST = "/etc/sbx/release-trust.json";

/** Keys that verify a release graph. One of the lists may be empty. */
export interface ReleaseKeys {
  /** every record of the channel must have the HMAC of one of them */
  hmac: readonly HmacKey[];
  /** the index must be signed by one of them */
  trusted: readonly PublicKey[];
}

/** `[release]` of corp.toml, as far as it names keys. */
export interface CorpKeys {
  hmac_key_file?: string;
  trust_file?: string;
}

/** Files of keys. */
export interface KeyFiles {
  hmac?: string;
  trust?: string;
}

/**
 * Names the files of keys: corp's, then the installed trust document of root, then the files of the
 * environment (docs/design/contracts/01-homes.md §1).
 *
 * @param corp with the path of corp.toml, where relative paths begin
 */
export async function findKeyFiles(
  corp?: { release: CorpKeys; path: string },
  env: { get(name: string): string | undefined } = Deno.env,
  managed = MANAGED_TRUST,
): Promise<KeyFiles> {
  const fromCorp = (path?: string) => path === undefined ? undefined : resolve(dirname(corp!.path), path);
  const isManaged = await Deno.lstat(managed).then(({ uid }) => uid === 0, () => false);
  const hmac = fromCorp(corp?.release.hmac_key_file) ?? (env.get("SBX_RELEASE_HMAC_KEY_FILE") || undefined);
  const trust = fromCorp(corp?.release.trust_file) ?? (isManaged ? managed : undefined) ??
    (env.get("SBX_RELEASE_TRUST_FILE") || undefined);
  return { ...(hmac !== undefined && { hmac }), ...(trust !== undefined && { trust }) };
}

/**
 * Reads the keys that verify releases.
 *
 * @throws {SbxError} `release.keys.missing`: no file is named; errors of the files
 */
export async function readReleaseKeys({ hmac, trust }: KeyFiles): Promise<ReleaseKeys> {
  if (hmac === undefined && trust === undefined) {
    throw new SbxError("release.keys.missing", "there is no key that could verify a release", {
      hint: `install a trust document at ${MANAGED_TRUST}, or name one with SBX_RELEASE_TRUST_FILE, ` +
        "or keys with SBX_RELEASE_HMAC_KEY_FILE",
    });
  }
  return {
    hmac: hmac === undefined ? [] : parseHmacKeys(await readKeyFile(hmac, "verify"), hmac),
    trusted: trust === undefined ? [] : parseTrust(await readKeyFile(trust, "public"), trust),
  };
}
