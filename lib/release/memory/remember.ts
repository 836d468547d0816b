import type { ManifestRecord } from "../schema.ts";
import { rankOf } from "../select.ts";
import type { Downgrade, Followed, MemoryFile, RememberedManifest } from "./schema.ts";

/** Downgrades that are kept, the last ones. */
const DOWNGRADES_KEPT = 100;

/** What one check learned about a channel. */
export interface Learned {
  url: string;
  channel: string;
  generated_at: string;
  records: readonly ManifestRecord[];
  /** verified manifests by version, remembered and new ones */
  manifests: ReadonlyMap<string, Omit<RememberedManifest, "status">>;
  now: Date;
  /** breaches a person accepted, and who */
  downgrade?: { by: string; accepted: string[] };
}

export function findFollowed({ followed }: MemoryFile, url: string, channel: string): Followed | undefined {
  return followed.find((each) => each.url === url && each.channel === channel);
}

/**
 * Adds the results of a check. A revoked version stays revoked, also when its record disappears; after an
 * accepted downgrade the versions missing from the index are forgotten.
 */
export function remember(content: MemoryFile, learned: Learned): MemoryFile {
  const { url, channel, generated_at, now, downgrade } = learned;
  const before = findFollowed(content, url, channel);
  const isNewer = !before || downgrade || Date.parse(generated_at) >= Date.parse(before.generated_at);
  const followed: Followed = {
    url,
    channel,
    generated_at: isNewer ? generated_at : before.generated_at,
    checked_at: now.toISOString(),
    manifests: mergeManifests(before, learned),
  };
  const record: Downgrade[] = downgrade
    ? [{ at: now.toISOString(), url, channel, by: downgrade.by, accepted: downgrade.accepted }]
    : [];
  return {
    ...content,
    followed: [...content.followed.filter((each) => each !== before), followed],
    downgrades: [...content.downgrades, ...record].slice(-DOWNGRADES_KEPT),
  };
}

function mergeManifests(
  before: Followed | undefined,
  { records, manifests, downgrade }: Learned,
): Followed["manifests"] {
  const merged = new Map(Object.entries(before?.manifests ?? {}));
  for (const [version, manifest] of manifests) {
    merged.set(version, { status: merged.get(version)?.status ?? "current", ...manifest });
  }
  for (const [version, manifest] of merged) {
    const record = records.find((each) => each.version === version);
    const { status } = manifest;
    if (record && (rankOf(record.status) > rankOf(status) || downgrade && status !== "revoked")) {
      merged.set(version, { ...manifest, status: record.status });
    } else if (!record && downgrade && status !== "revoked") merged.delete(version);
  }
  return Object.fromEntries(merged);
}
