import { SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import {
  type ChannelManifest,
  digestBytes,
  formatTrust,
  INDEX_ENVELOPE_NAME,
  INDEX_PAYLOAD_TYPE,
  type ManifestRecord,
  requireDigests,
  type SignedRecord,
  signPayload,
  signRecord,
} from "../release/mod.ts";
import type { PublisherKeys } from "./key.ts";
import { FILE_MODE, TRUST, UNSIGNED, type Workspace } from "./workspace.ts";

/** Tests whether a manifest may still change: no part of it is signed. */
export function isDraft({ packages, binaries, profiles, bundles = [] }: ChannelManifest): boolean {
  return [...packages, ...binaries, ...profiles, ...bundles].some(({ hmac }) => hmac === UNSIGNED);
}

/**
 * Signs new content: entries of drafts, every record of the index with the first HMAC key, and the index with
 * all signing keys. A manifest that was signed before keeps its bytes. The trust document gets the public
 * keys of all signing keys.
 *
 * @returns releases whose manifests were signed, as `channel version`
 * @throws {SbxError} `release.mismatch`: a manifest was changed after it was signed
 */
export async function signWorkspace(
  workspace: Workspace,
  { hmac: [key], signing }: PublisherKeys,
  now = new Date(),
): Promise<string[]> {
  const { index } = workspace;
  if (now.getTime() <= Date.parse(index.generated_at)) {
    throw new SbxError(
      "release.clock.invalid",
      `the index was signed at ${index.generated_at}, later than now`,
      {
        hint: "correct the clock: clients would refuse an index that is older than the one before",
      },
    );
  }
  const signed: string[] = [];
  for (const [channel, { manifests }] of Object.entries(index.channels)) {
    for (const [at, record] of manifests.entries()) {
      const { manifest, bytes } = await workspace.readManifest(record);
      const isNew = isDraft(manifest);
      if (isNew) signed.push(`${channel} ${record.version}`);
      else requireDigests(digestBytes(bytes), record.digest, `the manifest of ${channel} ${record.version}`);
      const actual = digestBytes(isNew ? await signManifest(workspace, record, manifest, key) : bytes);
      const digest = { sha256: actual.sha256, blake3: actual.blake3 };
      manifests[at] = signRecord<ManifestRecord>(key, { ...record, digest });
    }
  }
  index.generated_at = now.toISOString();
  const envelope = await signPayload(INDEX_PAYLOAD_TYPE, await workspace.writeIndex(), signing);
  await writeAtomic(workspace.path(INDEX_ENVELOPE_NAME), JSON.stringify(envelope) + "\n", FILE_MODE);
  await writeAtomic(workspace.path(TRUST), formatTrust(signing.map(({ publicKey }) => publicKey)), FILE_MODE);
  return signed;
}

async function signManifest(
  workspace: Workspace,
  record: ManifestRecord,
  { packages, binaries, profiles, bundles, ...head }: ChannelManifest,
  key: PublisherKeys["hmac"][number],
): Promise<Uint8Array> {
  const sign = <R extends SignedRecord>(entries: R[]) => entries.map((entry) => signRecord<R>(key, entry));
  return await workspace.writeManifest(record, {
    ...head,
    packages: sign(packages),
    binaries: sign(binaries),
    profiles: sign(profiles),
    ...(bundles && { bundles: sign(bundles) }),
  });
}
