import { SbxError } from "../../base/error/mod.ts";
import { digestBytes, requireDigests } from "../digest.ts";
import { requireHmac } from "../key/hmac.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { parseChannelManifest } from "../read.ts";
import type { ChannelManifest, ManifestRecord } from "../schema.ts";
import { nameOfRelease } from "./index.ts";

/**
 * Verifies the bytes of a manifest against its record: digests, then its own channel and version, which bind the record to
 * its place, then the HMAC of each entry.
 *
 * @throws {SbxError} `release.mismatch`, `release.invalid`, `release.hmac.invalid`
 */
export function verifyManifest(
  bytes: Uint8Array,
  record: ManifestRecord,
  channel: string,
  hmac: ReleaseKeys["hmac"],
): ChannelManifest {
  const name = nameOfRelease(record.version, channel);
  requireDigests(digestBytes(bytes), record.digest, `the manifest of ${name}`);
  const manifest = parseChannelManifest(bytes, `of ${name}`);
  if (manifest.channel !== channel || manifest.version !== record.version) {
    throw new SbxError(
      "release.mismatch",
      `the manifest of ${name} is that of ${nameOfRelease(manifest.version, manifest.channel)}`,
      { hint: "someone moved a record to another place; nothing was installed" },
    );
  }
  if (hmac.length > 0) {
    for (const each of manifest.packages) requireHmac(hmac, each, `package ${each.name} of ${name}`);
    for (const each of manifest.binaries) requireHmac(hmac, each, `binary ${each.name} of ${name}`);
    for (const each of manifest.profiles) requireHmac(hmac, each, `profile ${each.id} of ${name}`);
    for (const each of manifest.bundles ?? []) requireHmac(hmac, each, `bundle ${each.name} of ${name}`);
  }
  return manifest;
}
