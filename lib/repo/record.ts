/** Record of the sources brought into a VM, kept beside it on the host. */
import { join } from "node:path";
import { z } from "zod";
import { copySparse } from "../base/copy/mod.ts";
import { ifFound, SbxError } from "../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../base/home/mod.ts";

/** Longest wait for another program that takes work, in `ms`. */
const LOCK_MS = 60_000;

const Unit = z.strictObject({
  path: z.string().describe("below the folder; empty for that itself, others are submodules"),
  is_repository: z.boolean(),
  head: z.string().optional().describe(
    "commit that was checked out; of a folder, its files as they were sent",
  ),
  branch: z.string().optional(),
  work: z.string().describe("commit of the files as they were; of a folder, with what was pulled since"),
  pulled: z.record(z.string(), z.string()).describe("branch of the person → commit that a pull gave it"),
});
export type Unit = z.infer<typeof Unit>;

export const RepositoryRecord = z.strictObject({
  version: z.literal(1),
  dir: z.string().describe("folder of the person"),
  place: z.string().describe("folder in the guest"),
  is_live: z.boolean().optional().describe("the guest has the folder of the person itself"),
  units: z.array(Unit),
});
export type RepositoryRecord = z.infer<typeof RepositoryRecord>;

/** Files recording one VM's brought-in sources. */
export class Room {
  /** @param dir folder beside the VM's record, which goes with the VM */
  constructor(readonly dir: string) {}

  /** @throws {SbxError} `repo.damaged` */
  async read(): Promise<RepositoryRecord | undefined> {
    const text = await ifFound(Deno.readTextFile(this.#path));
    if (text === undefined) return undefined;
    try {
      return RepositoryRecord.parse(JSON.parse(text));
    } catch (cause) {
      throw new SbxError("repo.damaged", `"${this.#path}" cannot be read`, {
        cause,
        hint: "remove it, and bring the folder in again",
      });
    }
  }

  async write(record: RepositoryRecord): Promise<void> {
    await Deno.mkdir(this.dir, { recursive: true, mode: 0o700 });
    await writeAtomic(this.#path, JSON.stringify(record, null, 2));
  }

  /**
   * Waits until no one else is taking work of the VM.
   *
   * @returns lock, released by closing it
   * @throws {SbxError} `repo.busy`
   */
  async lock(): Promise<Deno.FsFile> {
    const file = await Deno.open(join(this.dir, ".lock"), { create: true, write: true, mode: 0o600 });
    if (await lockWithin(file, LOCK_MS)) return file;
    file.close();
    throw new SbxError("repo.busy", "another program takes work of this VM", { hint: "try again later" });
  }

  /** Copies the brought-in sources to another VM's room. @throws {SbxError} `repo.damaged`, `disk.full` */
  async copyTo(other: Room): Promise<void> {
    // Read first: a running push adds to the stores the objects its record will need.
    const record = await this.read();
    if (!record) return;
    await Deno.mkdir(other.dir, { mode: 0o700 });
    for (const unit of record.units.keys()) await copySparse(this.store(unit), other.store(unit));
    await other.write(record);
  }

  /** Path of the store of one unit. */
  store(unit: number): string {
    return join(this.dir, `${unit}.git`);
  }

  /** A new path for a store that is removed again. */
  temporary(): string {
    return join(this.dir, `incoming-${crypto.randomUUID()}.git`);
  }

  get #path(): string {
    return join(this.dir, "record.json");
  }
}
