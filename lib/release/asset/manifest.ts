/** Reads asset manifests, the addresses they may come from, and their versions. */
import type { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import { parseJson } from "../../base/json/mod.ts";
import { Manifest } from "./schema.ts";
import { isCompatible } from "../../base/semver/mod.ts";
import { VERSION } from "../../base/version/mod.ts";
import { displayUrl } from "../../base/download/mod.ts";

/** Longest manifest, in `bytes`: room for very many releases, and small enough to parse at once. */
export const MANIFEST_LIMIT = 1024 * 1024;
/** Problems named in one error; the rest are counted. */
const PROBLEMS_SHOWN = 3;

const GENERATE_HINT = "write a valid one with sbx-admin manifest generate; nothing was changed";

/**
 * Parses a manifest of untrusted bytes.
 *
 * @param source origin of the bytes, for the error
 * @throws {SbxError} `manifest.invalid`
 */
export function parseManifest(
  bytes: Uint8Array | string,
  source: string,
  hint = GENERATE_HINT,
): Manifest {
  const invalidError = (reason: string, cause?: unknown) =>
    new SbxError("manifest.invalid", `the asset manifest ${source} is not valid: ${reason}`, { cause, hint });
  if (bytes.length > MANIFEST_LIMIT) throw invalidError(`it is over ${MANIFEST_LIMIT} bytes`);
  let value: unknown;
  try {
    const text = typeof bytes === "string" ? bytes : new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    value = parseJson(text);
  } catch (cause) {
    throw invalidError("it is not JSON in UTF-8", cause);
  }
  const result = Manifest.safeParse(value);
  if (result.success) return result.data;
  throw invalidError(describe(result.error.issues), result.error);
}

/** Reads and parses a manifest. @throws {SbxError} `manifest.not_found`, `manifest.invalid` */
export async function readManifest(
  path: string,
  hint?: string,
): Promise<{ manifest: Manifest; bytes: Uint8Array }> {
  const bytes = await readLimited(path, MANIFEST_LIMIT + 1);
  return { manifest: parseManifest(bytes, path, hint), bytes };
}

async function readLimited(path: string, limit: number): Promise<Uint8Array> {
  try {
    using file = await Deno.open(path);
    const buffer = new Uint8Array(limit);
    let size = 0;
    for (let read; size < limit && (read = await file.read(buffer.subarray(size))) !== null;) size += read;
    return buffer.subarray(0, size);
  } catch (cause) {
    if (cause instanceof Deno.errors.NotFound) {
      throw new SbxError("manifest.not_found", `there is no asset manifest at ${path}`, {
        cause,
        hint: "check the path; sbx-admin manifest generate ASSETS_DIR writes a manifest",
      });
    }
    throw new SbxError("manifest.unreadable", `the asset manifest ${path} cannot be read`, {
      cause,
      hint: "give your user read permission on it",
    });
  }
}

/** Describes the first few issues, each as `assets.releases.2026.1121.1: <message>`. */
function describe(issues: z.core.$ZodIssue[]): string {
  const lines = issues.slice(0, PROBLEMS_SHOWN).map((issue) => {
    const message = issue.code === "invalid_key" ? issue.issues[0]?.message ?? issue.message : issue.message;
    return `${issue.path.map(String).join(".").slice(0, 200) || "manifest"}: ${message.slice(0, 300)}`;
  });
  const more = issues.length - lines.length;
  return lines.join("; ") + (more > 0 ? `; and ${more} more` : "");
}

/**
 * Checks that this sbx and the current release of a manifest go together: the release's `min_binary`, and the
 * `min_assets` that the manifest has for this version of sbx; both inclusive
 * (docs/design/contracts/10-release.md §10).
 *
 * @throws {SbxError} `assets.incompatible`
 */
export function requireCompatibleAssets({ assets: { current, releases }, binaries }: Manifest): void {
  const { min_binary } = releases[current];
  if (!isCompatible(min_binary)) {
    throw new SbxError(
      "assets.incompatible",
      `the asset release ${current} needs sbx ${min_binary} or newer; this is sbx ${VERSION}`,
      { hint: "update sbx, or install an older release: sbx update --assets --manifest <URL>" },
    );
  }
  const minAssets = Object.hasOwn(binaries.releases, VERSION)
    ? binaries.releases[VERSION].min_assets
    : undefined;
  if (minAssets === undefined || compareAssetVersions(current, minAssets) >= 0) return;
  throw new SbxError(
    "assets.incompatible",
    `sbx ${VERSION} needs the asset release ${minAssets} or newer; the manifest's current one is ${current}`,
    { hint: "install a newer release: sbx update --assets --manifest <URL>" },
  );
}

/** Order of asset versions, `YYYY.MMDD.N`. @returns negative when `a` is older */
export function compareAssetVersions(a: string, b: string): number {
  const [left, right] = [a, b].map((version) => version.split(".").map(Number));
  const at = left.findIndex((number, index) => number !== right[index]);
  return at < 0 ? 0 : left[at] - right[at];
}

/** Protocols of `sbx update --assets --manifest` (docs/design/contracts/13-command-line.md §13). */
const PROTOCOLS = ["file:", "https:", "http:"];

/**
 * Reads the expected hash of a manifest, with or without `blake3:`.
 * @throws {SbxError} `manifest.hash.invalid`
 */
export function parseManifestHash(text: string): string {
  const hash = text.replace(/^blake3:/, "");
  if (/^[0-9a-f]{64}$/.test(hash)) return hash;
  throw new SbxError("manifest.hash.invalid", `"${text.slice(0, 80)}" is not a BLAKE3 hash`, {
    hint: "give 64 hex characters in lower case: sbx-admin manifest check MANIFEST prints them",
  });
}

/**
 * Parses the address of a manifest, or of a folder with its files.
 * @throws {SbxError} `manifest.url.invalid`
 */
export function parseManifestUrl(text: string): URL {
  const url = URL.canParse(text) ? new URL(text) : null;
  if (url && PROTOCOLS.includes(url.protocol) && (url.protocol !== "file:" || url.host === "")) return url;
  throw new SbxError(
    "manifest.url.invalid",
    `invalid manifest address "${text.slice(0, 200)}"`,
    {
      hint: "give file:///path/manifest.json, https://… or http://…",
    },
  );
}

const LOOPBACK = /^(localhost|127\.\d+\.\d+\.\d+|\[::1\])$/;

/**
 * Refuses a manifest that anyone on the way could have written: over plain http from another machine, without
 * a hash from elsewhere. A manifest's files have their hashes in it and may come over plain
 * http.
 *
 * @throws {SbxError} `manifest.url.insecure`
 */
export function requireTrustworthy(url: URL, hash?: string): void {
  if (url.protocol !== "http:" || LOOPBACK.test(url.hostname) || hash !== undefined) return;
  throw new SbxError(
    "manifest.url.insecure",
    `${displayUrl(url)} is plain http: anybody on the way could change the manifest`,
    {
      hint:
        "use https://, or add --manifest-hash with the BLAKE3 that sbx-admin manifest check MANIFEST prints",
    },
  );
}
