/**
 * Shapes of the release graph (docs/design/contracts/10-release.md §10). Strict: an unknown key is refused.
 */
import { z } from "zod";
import { compareSemVer, isSemVer } from "../base/semver/mod.ts";
import {
  BINARIES_MAX,
  BUNDLE_BYTES_MAX,
  BUNDLES_MAX,
  CHANNELS_MAX,
  LABELS_MAX,
  PACKAGES_MAX,
  PROFILES_MAX,
  RECORDS_MAX,
} from "./limit.ts";
import { isReleaseUrl } from "./url.ts";

export { isReleaseUrl };

/** Statuses of a manifest record, in the only order in which they change. */
export const STATUSES = ["current", "supported", "deprecated", "revoked"] as const;
export const Status = z.enum(STATUSES);
export type Status = z.infer<typeof Status>;

/**
 * SHA-256, BLAKE3 or HMAC-SHA-256: exactly 64 hex characters, in lower case
 * (docs/design/contracts/14-limits.md §14).
 */
const hex = z.string().regex(/^[0-9a-f]{64}$/, "must be exactly 64 hexadecimal characters, in lower case");

/**
 * SemVer without build metadata, which the order ignores: two versions of the same rank could not be
 * distinguished.
 */
export const ReleaseVersion = z.string().max(64).refine(
  (text) => isSemVer(text) && !text.includes("+"),
  // Nothing after it is checked: versions are compared, which only valid ones can be.
  { abort: true, error: "must be a SemVer version without build metadata, such as 1.2.0" },
);

/** Version from another source, such as a binary's (docs/design/contracts/14-limits.md §14). */
const versionString = z.string().min(1).max(64).regex(
  /^(?!.*\.\.)[0-9A-Za-z.+~_-]+$/,
  "must not contain .., / or \\",
);

/** File name without `/`, `\` or `..` (docs/design/contracts/14-limits.md §14). */
const name = z.string().min(1).max(255).regex(
  /^(?!\.$)(?!.*\.\.)[\x21-\x5b\x5d-\x7e]+$/,
  "must not contain /, \\, .., spaces or control characters",
).refine((text) => !text.includes("/"), "must not contain /");

/** Absolute path of an installed file. */
const installPath = z.string().max(1024).regex(
  /^\/[\x20-\x5b\x5d-\x7e]+$/,
  "must be an absolute path of printable characters",
).refine((text) => !text.split("/").includes(".."), "must not contain ..");

const url = z.string().refine(isReleaseUrl, "must be a path below the index without .., or an http(s) URL");

/** Id of a channel, such as `stable`. */
export const ChannelId = z.string().max(64).regex(/^[a-z0-9-]+$/, "a channel id is 1 to 64 of a-z 0-9 -");
const profileId = z.string().regex(/^[a-z0-9_-]{1,64}$/, "a profile id is 1 to 64 of a-z 0-9 _ -");

const label = z.string().min(1).max(128).regex(/^[^\p{Cc}\p{Cs}]+$/u, "must be one line of text");

/** Label of a machine, as corp.toml gives it and a stage names it. */
export const MachineLabel = z.string().regex(
  /^[a-z0-9][a-z0-9._-]{0,63}$/,
  "a label is 1 to 64 of a-z 0-9 . _ -",
);

/** The machines that a release is for; a record without a stage is for all. */
export const Stage = z.strictObject({
  /** of the machines that have one of the labels */
  percent: z.int().min(0).max(100),
  /** absent: whatever their labels */
  labels: z.array(MachineLabel).min(1).max(LABELS_MAX).optional(),
});
export type Stage = z.infer<typeof Stage>;

/** Manifest of one version of a channel, as the index lists it. */
export const ManifestRecord = z.strictObject({
  version: ReleaseVersion,
  status: Status,
  url,
  digest: z.strictObject({ sha256: hex, blake3: hex, hmac: hex }),
  min_sbx_version: ReleaseVersion.optional(),
  max_sbx_version: ReleaseVersion.optional(),
  stage: Stage.optional(),
});
export type ManifestRecord = z.infer<typeof ManifestRecord>;

const Channel = z.strictObject({
  label,
  manifests: unique(
    z.array(ManifestRecord).max(RECORDS_MAX),
    (a, b) => compareSemVer(a.version, b.version),
    ({ version }) => `version ${version}`,
  ),
});
export type Channel = z.infer<typeof Channel>;

/** The channel index, `channels.json`. */
export const ChannelIndex = z.strictObject({
  version: z.literal(1, "version must be 1"),
  generated_at: z.iso.datetime("must be a time in UTC, such as 2026-11-25T03:00:00Z"),
  channels: z.record(ChannelId, Channel).refine(
    (channels) => Object.keys(channels).length <= CHANNELS_MAX,
    `at most ${CHANNELS_MAX} channels`,
  ),
});
export type ChannelIndex = z.infer<typeof ChannelIndex>;

const digests = { sha256: hex, blake3: hex, hmac: hex };

/** Kinds of packages (docs/design/contracts/10-release.md §10). */
export const PACKAGE_KINDS = ["macos-pkg", "deb"] as const;

export const PackageEntry = z.strictObject({
  name,
  kind: z.enum(PACKAGE_KINDS),
  url,
  ...digests,
  bytes: z.int().min(1),
  sbom: url,
});
export type PackageEntry = z.infer<typeof PackageEntry>;

export const BinaryEntry = z.strictObject({
  name,
  version: versionString,
  package: name,
  path: installPath,
  ...digests,
  sbom_component: z.string().min(1).max(255).regex(/^[\x21-\x7e]+$/, "must be printable, without spaces"),
});
export type BinaryEntry = z.infer<typeof BinaryEntry>;

export const ProfileEntry = z.strictObject({
  id: profileId,
  revision: ReleaseVersion,
  url,
  ...digests,
  min_sbx_version: ReleaseVersion.optional(),
});
export type ProfileEntry = z.infer<typeof ProfileEntry>;

/**
 * A company's policy in one file: corp.toml, and the rules and packs that it names
 * (docs/design/contracts/10-release.md §10, "Fleet bundles").
 */
export const BundleEntry = z.strictObject({
  name,
  url,
  ...digests,
  bytes: z.int().min(1).max(BUNDLE_BYTES_MAX),
});
export type BundleEntry = z.infer<typeof BundleEntry>;

/** The channel manifest: the contents of one version of a channel. An empty release is refused. */
export const ChannelManifest = z.strictObject({
  version: ReleaseVersion,
  channel: ChannelId,
  packages: unique(z.array(PackageEntry).max(PACKAGES_MAX), byText("name"), ({ name }) => `package ${name}`),
  binaries: unique(
    z.array(BinaryEntry).max(BINARIES_MAX),
    (a, b) => order(`${a.package}/${a.name}`, `${b.package}/${b.name}`),
    ({ name }) => `binary ${name}`,
  ),
  profiles: unique(z.array(ProfileEntry).max(PROFILES_MAX), byText("id"), ({ id }) => `profile ${id}`),
  /** absent in releases without one, which every sbx reads */
  bundles: z.array(BundleEntry).min(1).max(BUNDLES_MAX).optional(),
}).superRefine(({ packages, binaries, profiles, bundles = [] }, context) => {
  if (packages.length + profiles.length + bundles.length === 0) {
    context.addIssue({ code: "custom", message: "empty: it has neither packages nor profiles nor a bundle" });
  }
  for (const [at, { package: owner }] of binaries.entries()) {
    if (packages.some(({ name }) => name === owner)) continue;
    context.addIssue({ code: "custom", path: ["binaries", at, "package"], message: "names no package" });
  }
});
export type ChannelManifest = z.infer<typeof ChannelManifest>;

/** Refuses a list in which two elements are the same one. */
function unique<T, S extends z.ZodType<T[]>>(
  list: S,
  compare: (a: z.output<S>[number], b: z.output<S>[number]) => number,
  named: (element: z.output<S>[number]) => string,
) {
  return list.superRefine((elements, context) => {
    const sorted = elements.toSorted(compare);
    const twice = sorted.find((element, at) => at > 0 && compare(sorted[at - 1], element) === 0);
    if (twice) context.addIssue({ code: "custom", message: `${named(twice)} is there twice` });
  });
}

function byText<K extends string>(key: K) {
  return (a: Record<K, string>, b: Record<K, string>) => order(a[key], b[key]);
}

function order(a: string, b: string): number {
  return a < b ? -1 : a > b ? 1 : 0;
}
