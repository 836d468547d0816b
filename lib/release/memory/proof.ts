/**
 * Signed proof of revocations, which any other user of the machine can check
 * (docs/design/contracts/10-release.md §10, "Memory").
 */
import { z } from "zod";
import { nameOfRelease, readIndex, verifyManifest } from "../graph/records.ts";
import { requireHmac } from "../key/hmac.ts";
import type { ReleaseKeys } from "../key/keys.ts";
import { ChannelId, type ManifestRecord, ReleaseVersion } from "../schema.ts";
import { EMPTY, type Followed, type MemoryFile, type RememberedManifest } from "./schema.ts";

/** Proofs of a home; the oldest one makes room. */
const PROOFS_MAX = 8;

const base64 = z.base64();

/** One state of a channel as its publisher signed it, with the manifests of the releases that it revokes. */
const Proof = z.strictObject({
  url: z.string(),
  channel: ChannelId,
  document: base64.describe("`channels.json.dsse`, or `channels.json` where HMACs alone are trusted"),
  manifests: z.record(ReleaseVersion, base64).describe("revoked releases, by version"),
});
export type Proof = z.infer<typeof Proof>;

export const ProofFile = z.strictObject({
  schema: z.literal("sbx.revocations.v1"),
  proofs: z.array(Proof).max(PROOFS_MAX),
});
export type ProofFile = z.infer<typeof ProofFile>;

export const NO_PROOFS: ProofFile = { schema: "sbx.revocations.v1", proofs: [] };

/** Revoked releases of a channel that no proof shows yet. */
export function unproven(
  { proofs }: ProofFile,
  { url, channel }: Pick<Proof, "url" | "channel">,
  records: readonly ManifestRecord[],
): ManifestRecord[] {
  const same = proofs.filter((each) => each.url === url && each.channel === channel);
  return records.filter(({ status, version }) =>
    status === "revoked" && !same.some(({ manifests }) => Object.hasOwn(manifests, version))
  );
}

/** Adds a proof; earlier ones of the channel that show nothing more go. */
export function addProof({ proofs, schema }: ProofFile, added: Proof): ProofFile {
  const isKept = ({ url, channel, manifests }: Proof) =>
    url !== added.url || channel !== added.channel ||
    Object.keys(manifests).some((version) => !Object.hasOwn(added.manifests, version));
  return { schema, proofs: [...proofs.filter(isKept), added].slice(-PROOFS_MAX) };
}

/**
 * Builds the memory that a file's proofs support. A proof is the publisher's word, wherever it was found; one
 * that the keys do not verify shows nothing. How old it is does not matter: a revocation stays.
 */
export async function provenRevocations(text: string, keys: ReleaseKeys): Promise<MemoryFile> {
  const file = parse(text);
  const followed = await Promise.all(file.proofs.map((proof) => verify(proof, keys).catch(() => [])));
  return { ...EMPTY, followed: followed.flat() };
}

function parse(text: string): ProofFile {
  try {
    return ProofFile.parse(JSON.parse(text));
  } catch {
    return NO_PROOFS;
  }
}

async function verify({ url, channel, document, manifests }: Proof, keys: ReleaseKeys): Promise<Followed[]> {
  const { index } = await readIndex(Uint8Array.fromBase64(document), url, keys.trusted);
  const found: Record<string, RememberedManifest> = {};
  for (const record of index.channels[channel].manifests) {
    const { version, status } = record;
    if (status !== "revoked" || !Object.hasOwn(manifests, version)) continue;
    if (keys.hmac.length > 0) requireHmac(keys.hmac, record, nameOfRelease(version, channel));
    const bytes = Uint8Array.fromBase64(manifests[version]);
    const { binaries } = verifyManifest(bytes, record, channel, keys.hmac);
    found[version] = {
      status,
      sha256: record.digest.sha256,
      binaries: binaries.map(({ name, version }) => ({ name, version })),
      profiles: [],
    };
  }
  const { generated_at } = index;
  return [{ url, channel, generated_at, checked_at: generated_at, manifests: found }];
}
