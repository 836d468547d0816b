/** Checks a channel for the release to install, with the memory of its earlier states. */
import { SbxError } from "../../base/error/mod.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { MANIFEST_BYTES_MAX } from "../limit.ts";
import { findBreaches, findFollowed, remember, requireNoBreach } from "../memory/breach.ts";
import { unproven } from "../memory/proof.ts";
import type { Followed, RememberedManifest } from "../memory/schema.ts";
import type { ReleaseMemory } from "../memory/store.ts";
import type { ChannelIndex, ChannelManifest, ManifestRecord } from "../schema.ts";
import { isStagedFor, selectRecord, type StagedMachine } from "../select.ts";
import { resolveReleaseUrl } from "../url.ts";
import {
  type Fetch,
  fetchRecords,
  readProfileDocument,
  type VerifiedRecords,
  verifyManifest,
} from "./records.ts";

/** What to check, and how. */
export interface CheckOptions {
  /** address of `channels.json`, from `parseIndexUrl` */
  index: URL;
  channel: string;
  keys: ReleaseKeys;
  memory: ReleaseMemory;
  fetch: Fetch;
  now?: Date;
  /** version of sbx to select a release for; default: this program's */
  sbx?: string;
  /** machine to select a release for; absent: one without a key */
  machine?: StagedMachine;
  /** person who accepts an older state: `--allow-downgrade` */
  downgrade?: { by: string };
}

/** A channel, verified and remembered. */
export interface CheckedChannel {
  index: ChannelIndex;
  channel: string;
  /** the record to install, and its manifest */
  record: ManifestRecord;
  manifest: ChannelManifest;
  /** ids of the keys that verified them */
  verifiedBy: VerifiedRecords["verifiedBy"];
  /** breaches accepted for `downgrade`, one sentence each */
  accepted: string[];
}

/**
 * Checks a channel: fetches and verifies the index, refuses rollbacks and freezes, remembers deprecated and
 * revoked releases, and selects the record to install (docs/design/contracts/10-release.md §10). Nothing is
 * installed.
 *
 * @throws {SbxError} `release.…`, and the errors of `fetch`
 */
export async function checkChannel(options: CheckOptions): Promise<CheckedChannel> {
  const { index: url, channel, keys, fetch, sbx } = options;
  const { index, records, document, verifiedBy } = await fetchRecords(url, channel, keys, fetch);
  // Before anything else is fetched: a server cannot hide a revocation by withholding another file.
  const accepted = await rememberIndex(index, records, new Map(), options);
  const before = findFollowed(await options.memory.read(), url.href, channel);
  const withdrawn: Manifests = new Map();
  for (const record of records.filter((each) => isNewlyWithdrawn(each, before))) {
    const manifest = await fetchManifest(record, options);
    withdrawn.set(record.version, await memoryOf(record, manifest, before, options));
  }
  if (withdrawn.size > 0) await rememberIndex(index, records, withdrawn, options);
  await keepProofs(document, records, options);

  const staged = records.filter((each) => isStagedFor(each, channel, options.machine));
  if (staged.length === 0 && records.length > 0) {
    throw new SbxError("release.not_found", `no release of channel "${channel}" is staged for this machine`, {
      hint: "the installed release stays; sbx fleet status shows the place of this machine in stages",
    });
  }
  const record = selectRecord(channel, staged, sbx);
  const manifest = await fetchManifest(record, options);
  const selected = await memoryOf(record, manifest, before, options);
  await rememberIndex(index, records, new Map([[record.version, selected]]), options);
  return { index, channel, record, manifest, verifiedBy, accepted };
}

/** Manifests to remember, by version. */
type Manifests = Map<string, Omit<RememberedManifest, "status">>;

/**
 * Compares a verified index with the memory, and adds it.
 *
 * @returns breaches accepted as a downgrade
 * @throws {SbxError} a breach that is not accepted
 */
async function rememberIndex(
  index: ChannelIndex,
  records: readonly ManifestRecord[],
  manifests: Manifests,
  { index: { href }, channel, memory, now = new Date(), downgrade }: CheckOptions,
): Promise<string[]> {
  let accepted: string[] = [];
  await memory.update((content) => {
    const breaches = findBreaches(index, records, findFollowed(content, href, channel), now);
    accepted = requireNoBreach(breaches, downgrade !== undefined).map(({ message }) => message);
    // Later calls of one check find the same breach again, an index that is too old; it is recorded once.
    const isNew = accepted.length > 0 && manifests.size === 0;
    return remember(content, {
      url: href,
      channel,
      generated_at: index.generated_at,
      records,
      manifests,
      now,
      ...(isNew && { downgrade: { by: downgrade!.by, accepted } }),
    });
  });
  return accepted;
}

/** True for a deprecated or revoked release whose manifest is not remembered yet. */
function isNewlyWithdrawn({ version, status }: ManifestRecord, before: Followed | undefined): boolean {
  const isWithdrawn = status === "deprecated" || status === "revoked";
  return isWithdrawn && !(before && Object.hasOwn(before.manifests, version));
}

/**
 * Stores proofs of revoked releases for other users of the machine: signed documents with their manifests. A
 * manifest that cannot be fetched now is left to the next check, since this home remembers the revocation
 * itself.
 */
async function keepProofs(
  document: Uint8Array,
  records: readonly ManifestRecord[],
  options: CheckOptions,
): Promise<void> {
  const { index: { href: url }, channel, memory, keys } = options;
  if (unproven(await memory.proofs(), { url, channel }, records).length === 0) return;
  const manifests: Record<string, string> = {};
  for (const record of records.filter(({ status }) => status === "revoked")) {
    const bytes = await fetchManifestBytes(record, options).catch(() => undefined);
    if (bytes === undefined) continue;
    verifyManifest(bytes, record, channel, keys.hmac);
    manifests[record.version] = bytes.toBase64();
  }
  if (Object.keys(manifests).length > 0) {
    await memory.storeProof({ url, channel, document: document.toBase64(), manifests });
  }
}

async function fetchManifest(record: ManifestRecord, options: CheckOptions) {
  return verifyManifest(
    await fetchManifestBytes(record, options),
    record,
    options.channel,
    options.keys.hmac,
  );
}

async function fetchManifestBytes({ url }: ManifestRecord, { index, fetch }: CheckOptions) {
  return await fetch(resolveReleaseUrl(index, url), MANIFEST_BYTES_MAX);
}

/** The part of a manifest that is remembered. Documents of known profiles are not fetched again. */
async function memoryOf(
  { digest, version }: ManifestRecord,
  { binaries, profiles }: ChannelManifest,
  before: Followed | undefined,
  { index, fetch }: CheckOptions,
): Promise<Omit<RememberedManifest, "status">> {
  const known = Object.values(before?.manifests ?? {}).flatMap(({ profiles }) => profiles);
  const remembered = before && Object.hasOwn(before.manifests, version)
    ? before.manifests[version]
    : undefined;
  if (remembered) {
    return { sha256: remembered.sha256, binaries: remembered.binaries, profiles: remembered.profiles };
  }
  const rememberedProfiles = [];
  for (const entry of profiles) {
    const same = known.find(({ id, revision, blake3 }) =>
      id === entry.id && revision === entry.revision && blake3 === entry.blake3
    );
    const read = async () =>
      readProfileDocument(await fetch(resolveReleaseUrl(index, entry.url), MANIFEST_BYTES_MAX), entry);
    rememberedProfiles.push(same ?? await read());
  }
  return {
    sha256: digest.sha256,
    binaries: binaries.map(({ name, version }) => ({ name, version })),
    profiles: rememberedProfiles,
  };
}
