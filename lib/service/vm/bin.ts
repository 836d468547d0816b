/**
 * Deleted VMs, kept for a day where the disk has room (docs/design/contracts/02-http.md §2, "Deleted VMs").
 */
import { isTrial } from "../../config/profile/mod.ts";
import { basename, dirname, join } from "node:path";
import { z } from "zod";
import type { DeletedVm } from "../../client/api/mod.ts";
import { copySparse } from "../../base/copy/mod.ts";
import { freeBytes } from "../../base/disk/mod.ts";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { type Home, removeFolder, removeIfThere, writeAtomic } from "../../base/home/mod.ts";
import { log } from "../../base/log/mod.ts";
import { backgroundInterval } from "../../base/time/mod.ts";
import { didYouMean } from "../../base/text/mod.ts";
import { bootPaths, readRecord, readState, type VmPaths, vmPaths } from "../../session/mod.ts";
import { SESSION_ID } from "../record/sessions.ts";
import type { Vm } from "./vm.ts";

/** Time that a deleted VM is kept, in `ms` (docs/design/contracts/14-limits.md §14). */
export const KEEP_MS = 24 * 3600 * 1000;
/** Most deleted VMs: the oldest goes for the next one. */
export const KEEP_MAX = 32;
/** Free `bytes` of the disk below which no deleted VM stays. */
const FREE_BYTES = 4 * 1024 ** 3;
/** Time between two looks for VMs whose day is over, and at the disk, in `ms`. */
const SWEEP_MS = 60_000;
const NOTE = "deleted.json";
/** Name of a copy from another disk that is not complete. */
const PART = /^\..*\.part$/;

const Note = z.strictObject({ name: z.string(), profile_id: z.string(), deleted_at: z.iso.datetime() });

/** A VM on its way into the bin. */
interface BinnedVm {
  record: Pick<Vm["record"], "id" | "name" | "profile_id">;
  /** its folder */
  dir: string;
}

/** The folder of deleted VMs of one home, each with the files that it had. */
export class Bin {
  readonly #home: Pick<Home, "dir" | "sessionsDir">;
  readonly #free: (dir: string) => Promise<number>;
  readonly #removeFiles: (dir: string) => Promise<void>;
  /** settles when the work on the folder so far is done: a VM that is removed must not be restored in part */
  #tail: Promise<unknown> = Promise.resolve();

  /**
   * @param free bytes of the disk of a folder that are free
   * @param removeFiles removes a folder
   */
  constructor(home: Pick<Home, "dir" | "sessionsDir">, free = freeBytes, removeFiles = removeFolder) {
    this.#home = home;
    this.#free = free;
    this.#removeFiles = removeFiles;
  }

  get #dir(): string {
    return join(this.#home.dir, "deleted");
  }

  /** Removes VMs whose day is over, now and from now on. */
  begin(): void {
    const sweep = () => this.sweep().catch((error) => log.warn(error));
    sweep();
    backgroundInterval(sweep, SWEEP_MS);
  }

  /** True if a VM would be kept: one of a person whose files are whole, on a disk with room. */
  async takes({ record, damaged }: Pick<Vm, "record" | "damaged">): Promise<boolean> {
    if (record.parent || damaged || isTrial(record)) return false;
    if (await this.#hasRoom()) return true;
    await this.sweep();
    return await this.#hasRoom();
  }

  #next<T>(work: () => Promise<T>): Promise<T> {
    const done = this.#tail.then(work);
    this.#tail = done.catch(ignore("the caller has the failure; the next work goes on"));
    return done;
  }

  async #hasRoom(): Promise<boolean> {
    return await this.#free(this.#home.dir).catch(() => 0) >= FREE_BYTES;
  }

  /** Takes the files of a VM without a process. @param deletedAt absent: now */
  put({ record, dir }: BinnedVm, deletedAt = new Date().toISOString()): Promise<void> {
    const { id, name, profile_id } = record;
    return this.#next(async () => {
      await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
      const note: z.infer<typeof Note> = { name, profile_id, deleted_at: deletedAt };
      await writeAtomic(join(dir, NOTE), JSON.stringify(note));
      await move(dir, join(this.#dir, id), this.#removeFiles);
      await this.#sweep(Date.now());
    });
  }

  /** The newest first; a VM that is being removed is not one of them. */
  async list(now = Date.now()): Promise<DeletedVm[]> {
    return (await this.#all()).filter(({ expires_at }) => Date.parse(expires_at) > now);
  }

  /** Includes expired VMs, which the next sweep removes. */
  async #all(): Promise<DeletedVm[]> {
    const vms = await Promise.all((await this.#ids()).map((id) => this.#read(id)));
    return vms.filter((vm) => vm !== undefined).sort((a, b) => b.deleted_at.localeCompare(a.deleted_at));
  }

  /** Finds a VM by its id, or the one that was deleted last of its name. @throws {SbxError} `vm.not_found` */
  async get(idOrName: string): Promise<DeletedVm> {
    const vms = await this.list();
    const vm = vms.find(({ id, name }) => id === idOrName || name === idOrName);
    if (vm) return vm;
    throw new SbxError("vm.not_found", "no deleted VM has this name or id", {
      hint: didYouMean(idOrName, vms.map(({ name }) => name)) ??
        "sbx list --deleted shows the VMs that can be restored",
    });
  }

  /**
   * Puts the files of a VM back to where they were.
   * @throws {SbxError} `vm.not_found`: another request was first
   */
  takeOut(id: string): Promise<void> {
    return this.#next(() => this.#takeOut(id));
  }

  async #takeOut(id: string): Promise<void> {
    const dir = join(this.#home.sessionsDir, id);
    await move(join(this.#dir, id), dir, this.#removeFiles).catch((cause) => {
      if (!(cause instanceof Deno.errors.NotFound)) throw cause;
      throw new SbxError("vm.not_found", "this deleted VM is not there any more", {
        cause,
        hint: "sbx list --deleted shows the VMs that can be restored; sbx list shows the VMs",
      });
    });
    await Deno.remove(join(dir, NOTE)).catch(ignore("the note of a VM that is not in the bin is unused"));
  }

  /** Assets that suspended VMs need to go on. */
  async assets(): Promise<string[]> {
    const all = await Promise.all((await this.#ids()).map(async (id) => {
      const paths = this.#paths(id);
      const state = await readState(paths).catch(() => undefined);
      const record = state?.state === "Suspended"
        ? await readRecord(paths).catch(() => undefined)
        : undefined;
      return record ? bootPaths(record) : [];
    }));
    return all.flat();
  }

  /** Keys of the environments that deleted VMs need to be restored. */
  async environments(): Promise<string[]> {
    const records = await Promise.all(
      (await this.#ids()).map((id) => readRecord(this.#paths(id)).catch(() => undefined)),
    );
    return records.flatMap((record) => [record?.environment?.key, record?.before?.key])
      .filter((key) => key !== undefined);
  }

  /**
   * Removes the VMs whose day is over, and the oldest where there are too many or the disk is short of room.
   */
  sweep(now = Date.now()): Promise<void> {
    return this.#next(() => this.#sweep(now));
  }

  async #sweep(now: number): Promise<void> {
    const kept = await this.#all();
    const listed = new Set(kept.map(({ id }) => id));
    // A removal that was broken off has left files without a note.
    for (const id of await this.#ids()) if (!listed.has(id)) await this.#remove(id);
    for (const name of await this.#names()) {
      if (PART.test(name)) await this.#removeFiles(join(this.#dir, name)).catch((error) => log.warn(error));
    }
    while (kept.length > 0) {
      const oldest = kept.at(-1)!;
      const isOver = Date.parse(oldest.expires_at) <= now;
      if (!isOver && kept.length <= KEEP_MAX && await this.#hasRoom()) return;
      await this.#remove(oldest.id);
      kept.pop();
    }
  }

  /** Removes every deleted VM. @returns their names */
  empty(): Promise<string[]> {
    return this.#next(async () => {
      const all = await this.#all();
      for (const { id } of all) await this.#remove(id);
      return all.map(({ name }) => name);
    });
  }

  async #ids(): Promise<string[]> {
    return (await this.#names()).filter((name) => SESSION_ID.test(name));
  }

  async #names(): Promise<string[]> {
    try {
      const entries = await Array.fromAsync(Deno.readDir(this.#dir));
      return entries.filter(({ isDirectory }) => isDirectory).map(({ name }) => name);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  async #read(id: string): Promise<DeletedVm | undefined> {
    try {
      const note = Note.parse(JSON.parse(await Deno.readTextFile(join(this.#dir, id, NOTE))));
      const expires_at = new Date(Date.parse(note.deleted_at) + KEEP_MS).toISOString();
      return { id, ...note, expires_at };
    } catch {
      return undefined;
    }
  }

  /** The note goes first: a VM that is removed in part cannot be restored. */
  async #remove(id: string): Promise<void> {
    const dir = join(this.#dir, id);
    removeIfThere(join(dir, NOTE));
    // Files of a hostile guest that cannot be removed keep neither others nor a deletion from it.
    await this.#removeFiles(dir).catch((error) => log.warn(`${id}:`, error));
  }

  #paths(id: string): VmPaths {
    return vmPaths(join(this.#dir, id));
  }
}

/**
 * Moves a folder, also to another disk: `deleted` or `sessions` may be a link to one. Such a
 * copy is there whole or not at all.
 */
async function move(from: string, to: string, remove: (dir: string) => Promise<void>): Promise<void> {
  try {
    return await Deno.rename(from, to);
  } catch (error) {
    if ((error as { code?: string }).code !== "EXDEV") throw error;
  }
  const part = join(dirname(to), `.${basename(to)}.part`);
  try {
    await remove(part);
    await copySparse(from, part);
    await Deno.rename(part, to);
  } catch (error) {
    await remove(part).catch((failure) => log.warn(failure));
    throw error;
  }
  await remove(from);
}
