/** Shapes of asset manifests and their origins (docs/design/contracts/10-release.md §10). */
import { z } from "zod";
import { isSemVer } from "../../base/semver/mod.ts";
import { BOOT_NAMES } from "./name.ts";

/** Format of the asset manifest (docs/design/contracts/10-release.md §10). */
export const MANIFEST_FORMAT = 2;
/** Refresh interval of an installed manifest, unless its author sets another. */
export const DEFAULT_REFRESH_POLICY = "24h";

/** BLAKE3: exactly 64 hexadecimal characters (docs/design/contracts/14-limits.md §14). */
export const Hash = z.string().regex(
  /^[0-9a-f]{64}$/,
  "a hash is exactly 64 hexadecimal characters, in lower case",
);

/** File name without `/`, `\` or `..` (docs/design/contracts/14-limits.md §14). */
export const FileName = z.string().min(1).max(255).regex(
  // deno-lint-ignore no-control-regex -- a NUL or a newline in a file name is never meant
  /^(?!\.$)(?!.*\.\.)[^/\\\x00-\x1f]+$/,
  "a file name must not contain /, \\ or ..",
);

/** Version without `..`, `/` or `\` (docs/design/contracts/14-limits.md §14). */
export const VersionString = z.string().min(1).max(64).regex(
  /^(?!.*\.\.)[0-9A-Za-z.+~_-]+$/,
  "a version must not contain .., / or \\",
);

/** `YYYY.MMDD.N` (docs/design/contracts/10-release.md §10). */
export const AssetVersion = VersionString.regex(
  /^\d{4}\.(0[1-9]|1[0-2])(0[1-9]|[12]\d|3[01])\.(0|[1-9]\d{0,8})$/,
  "an asset version is YYYY.MMDD.N",
);

const day = z.iso.date();
const arch = z.string().regex(/^(arm64|x86_64)$/, "an architecture is arm64 or x86_64");

/** One file of one architecture. */
export const ManifestFile = z.strictObject({ hash: Hash, size: z.int().min(1).describe("bytes") });
export type ManifestFile = z.infer<typeof ManifestFile>;

/** Record with at least one entry. */
const nonEmpty = <V extends z.ZodType, K extends z.ZodType<string, string>>(key: K, value: V, what: string) =>
  z.record(key, value).refine((entries) => Object.keys(entries).length > 0, `${what} must not be empty`);

/** Packages of an image, as `[packages]` of its profile names them. */
const ImagePackages = z.strictObject({
  suite: z.string().max(64),
  apt: z.array(z.string()),
  npm: z.array(z.string()),
  bin: z.record(z.string(), z.string()),
  added: z.array(z.string()).optional().describe("a line for each of a company's own sources and files"),
});
export type ImagePackages = z.infer<typeof ImagePackages>;

/**
 * Inputs of an image, and the hash of each package in it that is from no Debian repository
 * (docs/design/contracts/10-release.md §10).
 */
export const ImageRecord = z.strictObject({
  profile: z.string().regex(/^[a-z0-9_-]{1,64}$/, "a profile id is 1 to 64 of a-z 0-9 _ -"),
  packages: ImagePackages,
  npm_lock: z.record(z.string(), z.string().regex(/^sha512-[A-Za-z0-9+/]{86}==$/)),
  lock: z.record(
    z.string().regex(/^(pip|cargo|go|deb):/),
    z.string().regex(/^(sha256:[0-9a-f]{64}|h1:[A-Za-z0-9+/]{43}=)$/),
  ).optional().describe("hash of each package of pip, cargo and go, and of each own .deb"),
});
export type ImageRecord = z.infer<typeof ImageRecord>;

/** Files of one architecture: the ones that a VM boots from, and more. */
const ArchFiles = z.record(FileName, ManifestFile).superRefine((files, context) => {
  const missing = BOOT_NAMES.filter((name) => !Object.hasOwn(files, name));
  if (missing.length === 0) return;
  context.addIssue(`no VM boots without ${BOOT_NAMES.join(", ")}; missing here: ${missing.join(", ")}`);
});

const AssetRelease = z.strictObject({
  date: day,
  deprecated: z.boolean(),
  min_binary: VersionString.refine(isSemVer, "min_binary must be a SemVer version such as 1.2.0").describe(
    "SemVer; an older sbx neither installs nor boots it",
  ),
  image: ImageRecord.optional().describe("absent: an image for every profile"),
  arches: nonEmpty(arch, ArchFiles, "arches"),
});

const BinaryRelease = z.strictObject({ date: day, deprecated: z.boolean(), min_assets: AssetVersion });

/** Releases by version, at least one, one of them current (docs/design/contracts/10-release.md §10). */
const releases = <V extends z.ZodType>(version: z.ZodType<string, string>, release: V) =>
  z.strictObject({ current: version, releases: nonEmpty(version, release, "releases") }).refine(
    ({ current, releases }) => Object.hasOwn(releases, current),
    { message: "current must be one of the releases", path: ["current"] },
  );

/** The VM asset manifest, `manifest.json` (docs/design/contracts/10-release.md §10). */
export const Manifest = z.strictObject({
  format: z.literal(MANIFEST_FORMAT, `format must be ${MANIFEST_FORMAT}`),
  refresh_policy: z.string().min(1).max(64),
  assets: releases(AssetVersion, AssetRelease),
  binaries: releases(VersionString, BinaryRelease),
});
export type Manifest = z.infer<typeof Manifest>;

/** Origin of the installed manifest, `manifest-origin.json` (docs/design/contracts/10-release.md §10). */
export const ManifestOrigin = z.strictObject({
  schema: z.literal("sbx.manifest_origin.v1"),
  origin: z.enum(["package", "update"]),
  source: z.string().min(1),
  fetched_at: z.iso.datetime().optional(),
  packaged_at: z.iso.datetime().optional(),
  package_version: z.string().optional(),
});
export type ManifestOrigin = z.infer<typeof ManifestOrigin>;
