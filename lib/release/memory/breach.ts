/** A check of a channel against the memory: contradictions, and the memory after it. */
import { SbxError } from "../../base/error/mod.ts";
import { compareSemVer } from "../../base/semver/mod.ts";
import { CLOCK_SKEW_HOURS_MAX, INDEX_AGE_DAYS_MAX } from "../limit.ts";
import type { ChannelIndex, ManifestRecord } from "../schema.ts";
import { highestVersion, rankOf } from "../select.ts";
import type { Downgrade, Followed, MemoryFile, RememberedManifest } from "./schema.ts";

const HOUR_MS = 3_600_000, DAY_MS = 24 * HOUR_MS;

/** Where an index contradicts the clock or the memory. */
export interface Breach {
  code: "release.frozen" | "release.rollback" | "release.clock.invalid" | "release.mismatch";
  message: string;
  hint: string;
  /** a person may accept it with `--allow-downgrade` */
  acceptable: boolean;
}

/**
 * Compares a verified index with the clock and with the memory of its channel: replayed indexes and records
 * (rollback), indexes that are kept from changing (freeze), manifests exchanged under the same version.
 */
export function findBreaches(
  { generated_at }: Pick<ChannelIndex, "generated_at">,
  records: readonly ManifestRecord[],
  followed: Followed | undefined,
  now: Date,
): Breach[] {
  return [
    ...clockBreaches(generated_at, now),
    ...followed
      ? [...rollbackBreaches(generated_at, records, followed), ...recordBreaches(records, followed)]
      : [],
  ];
}

function clockBreaches(generated_at: string, now: Date): Breach[] {
  const age = now.getTime() - Date.parse(generated_at);
  if (age < -CLOCK_SKEW_HOURS_MAX * HOUR_MS) {
    return [{
      code: "release.clock.invalid",
      message: `the channel index was generated at ${generated_at}, and it is ${now.toISOString()} here`,
      hint: "correct the clock of this machine, or the publisher's",
      acceptable: false,
    }];
  }
  if (age <= INDEX_AGE_DAYS_MAX * DAY_MS) return [];
  return [{
    code: "release.frozen",
    message: `the channel index was generated at ${generated_at}, more than ${INDEX_AGE_DAYS_MAX} days ago`,
    hint: "a mirror may keep updates back, the publisher may have stopped, or the clock here is wrong; " +
      "--allow-downgrade takes it nevertheless",
    acceptable: true,
  }];
}

function rollbackBreaches(
  generated_at: string,
  records: readonly ManifestRecord[],
  followed: Followed,
): Breach[] {
  const hint = "a mirror may send an old state; --allow-downgrade takes it nevertheless";
  const breaches: Breach[] = [];
  if (Date.parse(generated_at) < Date.parse(followed.generated_at)) {
    const message =
      `the channel index of ${generated_at} is older than the one of ${followed.generated_at}, seen before`;
    breaches.push({ code: "release.rollback", message, hint, acceptable: true });
  }
  const seen = highestVersion(installable(followed));
  const highest = highestVersion(records);
  if (seen !== undefined && (highest === undefined || compareSemVer(highest, seen) < 0)) {
    const message = `channel "${followed.channel}" had version ${seen} and now ends with ${
      highest ?? "nothing"
    }`;
    breaches.push({ code: "release.rollback", message, hint, acceptable: true });
  }
  return breaches;
}

function recordBreaches(records: readonly ManifestRecord[], { channel, manifests }: Followed): Breach[] {
  return records.flatMap(({ version, status, digest }): Breach[] => {
    const before = Object.hasOwn(manifests, version) ? manifests[version] : undefined;
    if (!before) return [];
    const name = `release ${version} of channel "${channel}"`;
    if (before.sha256 !== digest.sha256) {
      return [{
        code: "release.mismatch",
        message:
          `${name} is another one than before: its manifest was ${before.sha256} and is ${digest.sha256}`,
        hint: "the manifest of a version never changes; the publisher must give it a new version",
        acceptable: false,
      }];
    }
    if (rankOf(status) >= rankOf(before.status)) return [];
    return [{
      code: "release.rollback",
      message: `${name} was ${before.status} and is said to be ${status}; a status only moves forward`,
      hint: "a mirror may send an old record, or the publisher made a mistake" +
        (before.status === "revoked" ? "" : "; --allow-downgrade takes it nevertheless"),
      acceptable: before.status !== "revoked",
    }];
  });
}

/** Versions whose records must not disappear. A revoked one may: it is not installed again. */
function installable({ manifests }: Followed): { version: string }[] {
  return Object.entries(manifests).filter(([, { status }]) => status !== "revoked").map(([version]) => ({
    version,
  }));
}

/**
 * Refuses an index with breaches, except the ones that a person accepts.
 *
 * @returns the accepted ones
 * @throws {SbxError} the code of the first breach that is not accepted
 */
export function requireNoBreach(breaches: readonly Breach[], allowDowngrade: boolean): Breach[] {
  const refused = breaches.find(({ acceptable }) => !acceptable || !allowDowngrade);
  if (refused) throw new SbxError(refused.code, refused.message, { hint: refused.hint });
  return [...breaches];
}

/** Downgrades that are kept, the last ones. */
const DOWNGRADES_KEPT = 100;

/** What one check learned about a channel. */
interface Learned {
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
