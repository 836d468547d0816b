/** Verified release graphs that a home remembers, and the status of installed artifacts by them. */
import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { fileStamp } from "../../base/hash/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { addProof, NO_PROOFS, type Proof, ProofFile } from "./proof.ts";
import { EMPTY, type Followed, MemoryFile, type RememberedManifest } from "./schema.ts";
import type { Status } from "../schema.ts";
import { rankOf } from "../select.ts";

/** Longest wait for another process that changes the memory, in `ms`. */
const LOCK_TIMEOUT_MS = 20_000;

/**
 * Memory of the release graphs, `$SBX_HOME/release/memory.json` (0600). A damaged one is refused, never taken
 * for an empty one: revoked releases would run again.
 */
export class ReleaseMemory {
  readonly path: string;
  /** signed proofs of revocations, which other users of the machine verify themselves */
  readonly proofPath: string;
  #known?: { stamp: string; content: MemoryFile };

  constructor({ dir }: Pick<Home, "dir">) {
    this.path = join(dir, "release", "memory.json");
    this.proofPath = join(dir, "release", "revocations.json");
  }

  /** Reads the memory; one that was not written yet is empty. @throws {SbxError} `release.memory.invalid` */
  async read(): Promise<MemoryFile> {
    try {
      const stamp = await fileStamp(this.path);
      if (this.#known?.stamp !== stamp) {
        const content = MemoryFile.parse(JSON.parse(await Deno.readTextFile(this.path)));
        this.#known = { stamp, content };
      }
      return this.#known.content;
    } catch (cause) {
      if ((cause as { code?: string }).code === "ENOENT") return EMPTY;
      throw new SbxError(
        "release.memory.invalid",
        `what sbx remembers of releases, ${this.path}, cannot be read`,
        {
          cause,
          hint: "restore it; or remove it and run sbx update check, which reads the revocations again",
        },
      );
    }
  }

  /** Replaces the memory by the result of `change`; changes of several processes run one after another. */
  async update(change: (content: MemoryFile) => MemoryFile): Promise<void> {
    using _lock = await this.#lock();
    const content = MemoryFile.parse(change(await this.read()));
    await writeAtomic(this.path, JSON.stringify(content, null, 1) + "\n");
  }

  /** Reads the proofs; a damaged file yields none, since the memory itself holds their results. */
  async proofs(): Promise<ProofFile> {
    try {
      return ProofFile.parse(JSON.parse(await Deno.readTextFile(this.proofPath)));
    } catch {
      return NO_PROOFS;
    }
  }

  /** Stores a proof beside the others. */
  async storeProof(proof: Proof): Promise<void> {
    using _lock = await this.#lock();
    await writeAtomic(this.proofPath, JSON.stringify(addProof(await this.proofs(), proof)) + "\n");
  }

  async #lock(): Promise<Deno.FsFile> {
    await Deno.mkdir(dirname(this.path), { recursive: true, mode: 0o700 });
    const lock = await Deno.open(`${this.path}.lock`, { write: true, create: true, mode: 0o600 });
    if (await lockWithin(lock, LOCK_TIMEOUT_MS)) return lock;
    lock.close();
    throw new SbxError("release.busy", `another process changes ${this.path}`, { hint: "try again" });
  }
}

/** Status of a profile, an image or a binary, with the release that sets it. */
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
  /** part of the binary: a release must have this very document, not only its id and revision */
  isBuiltin: boolean;
}

/**
 * Status of a profile: that of the release with this document, or else with its id and revision, as for an
 * edited copy.
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
 * Within a channel the best status counts: a file that a good release still contains is good. Among channels
 * and servers the worst one counts: a revocation is not outvoted by a channel that lags behind.
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
