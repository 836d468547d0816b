/** The keys of a publisher, its signatures, and the status of signed releases. */
import { SbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import {
  type ChannelManifest,
  digestBytes,
  formatTrust,
  type HmacKey,
  INDEX_ENVELOPE_NAME,
  INDEX_PAYLOAD_TYPE,
  type ManifestRecord,
  parseHmacKeys,
  parseSigningKey,
  rankOf,
  readKeyFile,
  requireDigests,
  type SignedRecord,
  type SigningKey,
  signPayload,
  signRecord,
  type Stage,
  type Status,
} from "../release/mod.ts";
import { FILE_MODE, HMAC_KEYS, KEYS, TRUST, UNSIGNED, type Workspace } from "./workspace.ts";
import { join } from "node:path";
import { Stage as StageShape } from "../release/schema.ts";

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

/** Keys of a publisher. */
export interface PublisherKeys {
  /** the first one signs */
  hmac: HmacKey[];
  /** all of them sign: `keys/*.pem`, in the order of their names */
  signing: SigningKey[];
}

/**
 * Reads the keys of a workspace, or of another folder with the same files, such as a mounted key store.
 *
 * @throws {SbxError} `release.keys.…`
 */
export async function readPublisherKeys(
  workspace: string,
  dir = join(workspace, KEYS),
): Promise<PublisherKeys> {
  const path = join(dir, HMAC_KEYS);
  const hmac = parseHmacKeys(await readKeyFile(path, "sign"), path);
  const names = await Array.fromAsync(Deno.readDir(dir), ({ name }) => name);
  const signing = [];
  for (const name of names.filter((name) => name.endsWith(".pem")).sort()) {
    signing.push(await parseSigningKey(await readKeyFile(join(dir, name), "sign"), join(dir, name)));
  }
  if (signing.length > 0) return { hmac, signing };
  throw new SbxError("release.keys.not_found", `${dir} has no key that signs, NAME.pem`, {
    hint:
      "openssl genpkey -algorithm ed25519 -out NAME.pem makes one; put its public key into the trust documents of hosts",
  });
}

/**
 * Moves the status of a release forward. The record must be signed again.
 *
 * @throws {SbxError} `release.not_found`, `release.status.invalid`: a status never moves back
 */
export async function markRelease(
  workspace: Workspace,
  channel: string,
  version: string,
  status: Status,
): Promise<void> {
  const record = workspace.record(channel, version);
  if (rankOf(status) <= rankOf(record.status)) {
    throw new SbxError(
      "release.status.invalid",
      `release ${version} of channel "${channel}" is ${record.status}, and cannot become ${status}`,
      {
        hint:
          "a status only moves forward: current, supported, deprecated, revoked; publish a new version instead",
      },
    );
  }
  record.status = status;
  record.digest.hmac = UNSIGNED;
  await workspace.writeIndex();
}

/**
 * Says which machines a release is for. The record must be signed again. Machines that have the release keep
 * it when its stage shrinks: a release is taken back by revoking it.
 *
 * @param stage absent: all machines
 * @throws {SbxError} `release.not_found`, `release.stage.invalid`
 */
export async function stageRelease(
  workspace: Workspace,
  channel: string,
  version: string,
  stage: Stage | undefined,
): Promise<void> {
  const record = workspace.record(channel, version);
  const parsed = StageShape.optional().safeParse(stage);
  if (!parsed.success) {
    throw new SbxError("release.stage.invalid", `the stage is refused: ${parsed.error.issues[0].message}`, {
      hint: "give a percentage from 0 to 100 and labels such as canary",
    });
  }
  if (parsed.data) record.stage = parsed.data;
  else delete record.stage;
  record.digest.hmac = UNSIGNED;
  await workspace.writeIndex();
}
