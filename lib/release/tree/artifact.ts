import { basename } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { blake3File } from "../../base/hash/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import { decodeUtf8 } from "../../base/text/mod.ts";
import { parseToml } from "../../base/toml/mod.ts";
import { digestFile, requireDigests } from "../digest.ts";
import { readProfileDocument } from "../graph/profile.ts";
import type { ChannelManifest } from "../schema.ts";
import { type Artifact, treePath } from "./tree.ts";

/** Lists the files of a release: packages, SBOMs, bundles, profiles, and the images that profiles pin. */
export async function artifactsOf(
  dir: string,
  { packages, profiles, bundles = [] }: ChannelManifest,
): Promise<Artifact[]> {
  const at = (url: string) => ({ name: basename(url), url, path: treePath(dir, url) });
  const sboms = new Set(packages.map(({ sbom }) => sbom));
  const artifacts: Artifact[] = [
    ...packages.map(({ name, url, sha256, blake3, bytes }): Artifact => ({
      ...at(url),
      kind: "package",
      name,
      sha256,
      blake3,
      bytes,
    })),
    ...[...sboms].map((url): Artifact => ({ ...at(url), kind: "sbom" })),
    ...bundles.map(({ name, url, sha256, blake3, bytes }): Artifact => ({
      ...at(url),
      kind: "bundle",
      name,
      sha256,
      blake3,
      bytes,
    })),
  ];
  for (const entry of profiles) {
    const { url, sha256, blake3 } = entry;
    const artifact: Artifact = { ...at(url), kind: "profile", sha256, blake3 };
    artifacts.push(artifact);
    const bytes = artifact.path && await Deno.readFile(artifact.path).catch(() => undefined);
    if (bytes) artifacts.push(...imagesOf(dir, bytes));
  }
  return artifacts;
}

/** Pins of a profile document: `assets.arch.<arch>.<file>` and `obom.arch.<arch>`. One that cannot be read has none. */
function imagesOf(dir: string, bytes: Uint8Array): Artifact[] {
  let value: Record<string, unknown>;
  try {
    value = parseToml(decodeUtf8(bytes) ?? "", "profile").value;
  } catch {
    return [];
  }
  const archesOf = (table: unknown) =>
    isObject(table) && isObject(table.arch) ? Object.entries(table.arch) : [];
  const pins = [
    ...archesOf(value.assets).flatMap(([arch, files]) =>
      isObject(files) ? Object.values(files).map((pin) => ({ arch, pin })) : []
    ),
    ...archesOf(value.obom).map(([arch, pin]) => ({ arch, pin })),
  ];
  return pins.flatMap(({ arch, pin }): Artifact[] => {
    if (!isObject(pin)) return [];
    const { name, url, hash, size } = pin;
    if (typeof url !== "string" || typeof hash !== "string") return [];
    return [{
      kind: "image",
      arch,
      name: String(name),
      url,
      path: treePath(dir, url),
      blake3: hash.replace(/^blake3:/, ""),
      bytes: Number(size),
    }];
  });
}

/**
 * Verifies one file of a release by its record or pin.
 *
 * @param onBytes for a progress bar
 * @returns the means of verification
 * @throws {SbxError} `release.mismatch`, `release.not_found`
 */
export async function verifyArtifact(
  artifact: Artifact & { path: string },
  { profiles }: ChannelManifest,
  onBytes?: (bytes: number) => void,
): Promise<string> {
  const { kind, path, url, sha256, blake3, bytes } = artifact;
  if (!await Deno.stat(path).then(({ isFile }) => isFile, () => false)) {
    throw new SbxError("release.not_found", `${url} is not there`, { hint: "publish the whole release" });
  }
  if (kind === "sbom") return "present";
  if (kind === "profile") {
    readProfileDocument(await Deno.readFile(path), profiles.find((entry) => entry.url === url)!);
    return "SHA-256, BLAKE3, id and revision";
  }
  if (sha256 !== undefined && blake3 !== undefined) {
    requireDigests(await digestFile(path, onBytes), { sha256, blake3, bytes }, url);
    return "size, SHA-256 and BLAKE3";
  }
  const actual = await blake3File(path, onBytes);
  if (actual.hash !== blake3 || actual.size !== bytes) {
    throw new SbxError(
      "release.mismatch",
      `${url} is not what its profile pins: ${actual.hash}, ${actual.size} bytes`,
      {
        hint: "publish the image of the profile",
      },
    );
  }
  return "size and BLAKE3";
}
