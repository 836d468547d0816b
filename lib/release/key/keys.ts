import { dirname, resolve } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import type { PublicKey } from "./ed25519.ts";
import { readKeyFile } from "./file.ts";
import { type HmacKey, parseHmacKeys } from "./hmac.ts";
import { parseTrust } from "./trust.ts";

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
