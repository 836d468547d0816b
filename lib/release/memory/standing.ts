/** Status of the installed artifacts, by the verified graphs that a home remembers. */
import { SbxError } from "../../base/error/mod.ts";
import type { Status } from "../schema.ts";
import { rankOf } from "../select.ts";
import type { Followed, MemoryFile, RememberedManifest } from "./schema.ts";

/** Status of a profile, an image or a binary, and the release that states it. */
export interface Standing {
  status: Status;
  url: string;
  channel: string;
  /** of the release */
  version: string;
}

/** A profile as it is about to run. */
export interface ProfileIdentity {
  id: string;
  revision: string;
  /** of its document */
  blake3: string;
  /** comes with the binary: only its very document counts, not another one of the same revision */
  isBuiltin: boolean;
}

/**
 * Status of a profile. A document that a release contains has the status of that release; another one with the same id
 * and revision, such as an edited copy, the same.
 *
 * @returns undefined when no remembered release has it
 */
export function standingOfProfile(memory: MemoryFile, profile: ProfileIdentity): Standing | undefined {
  const { id, revision, blake3, isBuiltin } = profile;
  const exact = standingOf(memory, ({ profiles }) => profiles.some((each) => each.blake3 === blake3));
  if (exact || isBuiltin) return exact;
  return standingOf(
    memory,
    ({ profiles }) => profiles.some((each) => each.id === id && each.revision === revision),
  );
}

/** Status of an image: the worst of its boot files. @param hashes their BLAKE3, or the first 16 characters */
export function standingOfAssets(memory: MemoryFile, hashes: readonly string[]): Standing | undefined {
  return worst(
    hashes.flatMap((hash) =>
      standingOf(
        memory,
        ({ profiles }) => profiles.some(({ assets }) => assets.some((each) => each.startsWith(hash))),
      ) ?? []
    ),
  );
}

/** Status of a binary, such as this sbx. */
export function standingOfBinary(memory: MemoryFile, name: string, version: string): Standing | undefined {
  return standingOf(
    memory,
    ({ binaries }) => binaries.some((each) => each.name === name && each.version === version),
  );
}

/**
 * Refuses revoked artifacts.
 *
 * @param what names the artifact, such as `profile "code" 1.2.0`
 * @returns a sentence about a deprecated one, undefined for the rest
 * @throws {SbxError} `release.revoked` (409)
 */
export function requireNotRevoked(
  standing: Standing | undefined,
  what: string,
  hint = "sbx update check shows what to install instead",
): string | undefined {
  if (!standing) return undefined;
  const { status, version, channel } = standing;
  const where = `release ${version} of channel "${channel}"`;
  if (status === "revoked") {
    throw new SbxError("release.revoked", `${what} is revoked: its publisher withdrew ${where}`, {
      hint,
    });
  }
  return status === "deprecated"
    ? `${what} is deprecated with ${where}: sbx update installs a newer one`
    : undefined;
}

/**
 * Within a channel the best status counts: a file that a good release still contains is good. Among channels and servers
 * the worst one counts: a revocation is not outvoted by a channel that lags behind.
 */
function standingOf(
  { followed }: MemoryFile,
  contains: (manifest: RememberedManifest) => boolean,
): Standing | undefined {
  return worst(followed.flatMap((each) => bestOf(each, contains) ?? []));
}

function bestOf(
  { url, channel, manifests }: Followed,
  contains: (manifest: RememberedManifest) => boolean,
): Standing | undefined {
  const found = Object.entries(manifests).filter(([, manifest]) => contains(manifest))
    .map(([version, { status }]): Standing => ({ status, url, channel, version }));
  return found.toSorted((a, b) => rankOf(a.status) - rankOf(b.status))[0];
}

function worst(standings: readonly Standing[]): Standing | undefined {
  return standings.toSorted((a, b) => rankOf(b.status) - rankOf(a.status))[0];
}
