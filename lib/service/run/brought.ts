/**
 * Copies of the files that a person brought into a VM, by their hash, from which `sbx learn --minimise`
 * starts its trials (docs/design/contracts/02-http.md §2, "Files"). They go with the VM.
 */
import { join } from "node:path";
import { freeBytes } from "../../base/disk/mod.ts";
import { asSbxError, ifFound, ignore } from "../../base/error/mod.ts";
import { log } from "../../base/log/mod.ts";
import { writeAll } from "../../base/wire/mod.ts";

/** Most `bytes` and copies of one VM (docs/design/contracts/14-limits.md §14). */
const BROUGHT_MAX = 256 * 1024 * 1024, COPIES_MAX = 10_000;
/** `bytes` of the disk that copies leave free, as snapshots do. */
const KEEP_FREE = 512 * 1024 * 1024;
/** Begin of the name of a copy under way. */
const UNFINISHED = ".part-";
/** Folders whose content is remembered: reading one before each of many files takes too long. */
const ROOMS_MAX = 32;

/** Content of one VM's folder, for all requests at once. */
class Room {
  static readonly #all = new Map<string, Room>();
  /** hashes of the copies */
  readonly kept = new Set<string>();
  /** `bytes` of the copies, also of the ones under way */
  bytes = 0;
  /** copies under way */
  users = 0;
  readonly #dir: string;
  readonly #ready: Promise<void>;

  private constructor(dir: string) {
    this.#dir = dir;
    this.#ready = this.#read();
  }

  /** Begins a use. */
  static async enter(dir: string): Promise<Room> {
    const room = Room.#all.get(dir) ?? new Room(dir);
    room.users++;
    // The last one is the one used last.
    Room.#all.delete(dir);
    Room.#all.set(dir, room);
    for (const [name, { users }] of Room.#all) {
      if (Room.#all.size <= ROOMS_MAX) break;
      if (users === 0) Room.#all.delete(name);
    }
    try {
      await room.#ready;
    } catch (error) {
      room.users--;
      if (Room.#all.get(dir) === room) Room.#all.delete(dir);
      throw error;
    }
    return room;
  }

  /** The next use reads the folder again. */
  static forget(dir: string): void {
    Room.#all.delete(dir);
  }

  async #read(): Promise<void> {
    await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
    for await (const { name } of Deno.readDir(this.#dir)) {
      const path = join(this.#dir, name);
      // Of a service that was killed.
      if (name.startsWith(UNFINISHED)) await ifFound(Deno.remove(path));
      else {
        this.kept.add(name);
        this.bytes += (await ifFound(Deno.lstat(path)))?.size ?? 0;
      }
    }
  }
}

/** The folder of one VM's copies. A copy that fails or has no room is left out: the file itself goes on. */
export class BroughtFiles {
  readonly #dir: string;
  readonly #max: { bytes: number; copies: number };

  constructor(dir: string, bytes = BROUGHT_MAX, copies = COPIES_MAX) {
    this.#dir = dir;
    this.#max = { bytes, copies };
  }

  /** A copy of the bytes that come; to be disposed. */
  async begin(): Promise<BroughtCopy> {
    const path = join(this.#dir, UNFINISHED + crypto.randomUUID());
    let room: Room | undefined;
    try {
      room = await Room.enter(this.#dir);
      const free = await freeBytes(this.#dir) - KEEP_FREE;
      const file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
      return new BroughtCopy(path, { room, free, max: this.#max, file });
    } catch (error) {
      if (room) room.users--;
      // Its folder may have been removed by hand.
      Room.forget(this.#dir);
      log.warn(asSbxError(error, `keeping a copy in "${this.#dir}"`));
      return new BroughtCopy(path);
    }
  }
}

/** Parts of a copy that has a place. */
interface Place {
  room: Room;
  /** `bytes` of the disk for it */
  free: number;
  max: { bytes: number; copies: number };
  file: Deno.FsFile;
}

/** One copy under way. */
export class BroughtCopy implements AsyncDisposable {
  readonly #path: string;
  #place?: Place;
  #size = 0;

  /** @param place absent: nothing is kept */
  constructor(path: string, place?: Place) {
    this.#path = path;
    this.#place = place;
  }

  async write(bytes: Uint8Array): Promise<void> {
    if (!this.#place) return;
    const { room, free, max, file } = this.#place;
    this.#size += bytes.length;
    room.bytes += bytes.length;
    if (this.#size > free || room.bytes > max.bytes) return await this.#drop();
    await writeAll(file, bytes).catch(() => this.#drop());
  }

  /** Keeps it by the hash of all its bytes. */
  async keep(hash: string): Promise<void> {
    if (!this.#place) return;
    const { room, max } = this.#place;
    if (room.kept.has(hash) || room.kept.size >= max.copies) return await this.#drop();
    room.kept.add(hash);
    try {
      await Deno.rename(this.#path, join(this.#path, "..", hash));
      this.#leave();
    } catch (error) {
      room.kept.delete(hash);
      log.warn(asSbxError(error, "keeping a copy of a file"));
      await this.#drop();
    }
  }

  async #drop(): Promise<void> {
    if (!this.#place) return;
    this.#place.room.bytes -= this.#size;
    this.#leave();
    await Deno.remove(this.#path).catch(ignore("it is gone with the VM"));
  }

  #leave(): void {
    if (!this.#place) return;
    this.#place.file.close();
    this.#place.room.users--;
    this.#place = undefined;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#drop();
  }
}
