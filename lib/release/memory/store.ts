import { dirname, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { fileStamp } from "../../base/hash/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { addProof, NO_PROOFS, type Proof, ProofFile } from "./proof.ts";
import { EMPTY, MemoryFile } from "./schema.ts";

/** Longest wait for another process that changes the memory, in `ms`. */
const LOCK_TIMEOUT_MS = 20_000;

/**
 * Memory of the release graphs, `$SBX_HOME/release/memory.json` (0600). A damaged one is refused, never taken
 * for an empty one: revoked releases would run again.
 */
export class ReleaseMemory {
  readonly path: string;
  /** signed proof of revocations, which other users of the machine check for themselves */
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

  /** Keeps a proof beside the others. */
  async prove(proof: Proof): Promise<void> {
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
