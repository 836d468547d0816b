/**
 * Artefacts on disk, in one folder for the processes of many VMs. A file is written under a name of its
 * own, and gets the name of its digest once its digest is known: no process sees half of one, and two
 * that write the same one write the same bytes. Every reader hashes its bytes, since a file that was
 * changed on disk must not reach a guest.
 */
import { dirname, join } from "node:path";
import { blake3 } from "../base/hash/mod.ts";
import { freeBytes } from "../base/disk/mod.ts";
import { ifFound, ignore, SbxError } from "../base/error/mod.ts";
import { makeOwnFolder, writeAtomic } from "../base/home/mod.ts";
import { closeQuietly, writeAll } from "../base/wire/mod.ts";
import { objectOf } from "../base/object/mod.ts";
import { algorithmOf, type Digest, type Hasher, hasherOf, parseDigest } from "./digest.ts";
import { vouchedFor, type Voucher } from "./voucher.ts";

// Limits (docs/design/contracts/14-limits.md §14).

/** Longest artefact that is kept, in `bytes`. */
const ARTIFACT_MAX = 4 * 1024 ** 3;
/**
 * Longest artefact that is read whole before its first byte goes to a guest, in
 * `bytes`; each connection may hold one.
 */
const WHOLE_MAX = 256 * 1024;
/** `bytes` of the disk that the cache leaves free. */
const FREE_MIN = 1024 ** 3;
/** Part of the maximum size that stays after the least used artefacts were removed. */
const KEPT_PART = 0.9;
/** Longest record of an artefact, in `bytes`: its URL is a head's. */
const RECORD_MAX = 128 * 1024;
/** Age of an unfinished copy that no process writes any more, in `ms`. */
const STALE_MS = 24 * 3600 * 1000;
/** `bytes` of one read. */
const CHUNK = 64 * 1024;
/**
 * `bytes` of a copy after which the disk is looked at again: lengths may be
 * unknown, and other copies grow too.
 */
const ROOM_STEP = 16 * 1024 * 1024;

/** Name of a store's folder: of the VMs of a home, or of a profile. */
export const SCOPE = /^(home|profile-[a-z0-9_-]{1,64})$/;

/** An artefact in the store. */
export interface StoredArtifact {
  registry: string;
  url: string;
  digest: Digest;
  bytes: number;
  /** ISO 8601 */
  stored_at: string;
}

/** Name of a record; a hash, since a URL may be longer than a name. */
function recordName(url: string): string {
  return `${blake3(url)}.json`;
}

function objectName(digest: Digest): string {
  return digest.replace(":", "-");
}

export class ArtifactStore {
  readonly #entries: string;
  readonly #objects: string;
  readonly #parts: string;
  readonly #maxBytes: number;
  /** `bytes` of the copies that this process is writing */
  #underWay = 0;
  /** `bytes` that this process has written since it measured the store; unmeasured at first */
  #written = Infinity;

  private constructor(dir: string, maxBytes: number) {
    [this.#entries, this.#objects, this.#parts] = ["entries", "objects", "parts"].map((name) =>
      join(dir, name)
    );
    this.#maxBytes = maxBytes;
  }

  /**
   * Opens a store, and makes its folders for this user alone.
   *
   * @throws {SbxError} `home.foreign`: another user owns one, or may write to
   * it; `cache.invalid`: it is a link
   */
  static async open(dir: string, maxBytes: number): Promise<ArtifactStore> {
    const store = new ArtifactStore(dir, maxBytes);
    // The cache may be a link to another disk; the folders below are not.
    await makeOwnFolder(dirname(dir));
    for (const folder of [dir, store.#entries, store.#objects, store.#parts]) {
      await makeOwnFolder(folder);
      await requireFolder(folder);
    }
    return store;
  }

  /**
   * Opens an artefact.
   *
   * @param expected digest that the request itself names; another one in the
   * record is an old or a forged record
   */
  async find(url: string, expected?: Digest): Promise<OpenArtifact | undefined> {
    const record = await this.#readRecord(recordName(url));
    if (!record || record.url !== url || expected && record.digest !== expected) return undefined;
    const path = join(this.#objects, objectName(record.digest));
    const file = await openOwn(path, record.bytes);
    if (!file) return undefined;
    const now = new Date();
    // The least recently used artefacts are removed first.
    await file.utime(now, now).catch(ignore("it is removed earlier than it should be"));
    const discard = () => Deno.remove(path).catch(ignore("another process has removed it"));
    try {
      return await OpenArtifact.of(file, record, discard);
    } catch (error) {
      closeQuietly(file);
      throw error;
    }
  }

  /**
   * Begins a copy.
   *
   * @param length `undefined`: unknown until the end
   * @returns `undefined` where there is no room for it
   */
  async begin(
    algorithm: Parameters<typeof hasherOf>[0] | undefined,
    length?: number,
  ): Promise<Copy | undefined> {
    if (length !== undefined && length > Math.min(ARTIFACT_MAX, this.#maxBytes)) return undefined;
    if (!await this.#hasRoom(length ?? 0)) return undefined;
    const path = join(this.#parts, crypto.randomUUID());
    const hashers = await Promise.all(
      (algorithm ? [algorithm] : ["sha512", "sha256"] as const).map(hasherOf),
    );
    const file = await Deno.open(path, { write: true, createNew: true, mode: 0o600 });
    return new Copy(file, path, hashers, {
      grow: (bytes) => this.#underWay += bytes,
      hasRoom: () => this.#hasRoom(0),
    });
  }

  /** True while the disk has room, and copies that are not kept yet are no more than a whole cache. */
  async #hasRoom(bytes: number): Promise<boolean> {
    return this.#underWay <= this.#maxBytes && await freeBytes(this.#parts) >= FREE_MIN + bytes;
  }

  /** Keeps a copy that the voucher is for; drops any other. @returns true if it is kept */
  async commit(
    copy: Copy,
    { registry, url }: { registry: string; url: string },
    voucher: Voucher,
  ): Promise<boolean> {
    const { path, bytes } = copy;
    try {
      const digest = await vouchedFor(path, await copy.digests(), voucher);
      if (!digest) return false;
      const record: StoredArtifact = {
        registry,
        url,
        digest,
        bytes,
        stored_at: new Date().toISOString(),
      };
      await writeAtomic(join(this.#entries, recordName(url)), JSON.stringify(record));
      // Last: a record alone is no artefact.
      await Deno.rename(path, join(this.#objects, objectName(digest)));
    } finally {
      await copy.drop();
    }
    this.#written += bytes;
    // Other processes write too: each measures the store again after a tenth of its size.
    if (this.#written > this.#maxBytes * (1 - KEPT_PART)) await this.shrink();
    return true;
  }

  /**
   * Removes the least recently used artefacts of a store that is too large, and
   * copies that a crash left behind.
   */
  async shrink(): Promise<void> {
    this.#written = 0;
    const old = Date.now() - STALE_MS;
    for (const { path, usedAt } of await filesIn(this.#parts)) {
      if (usedAt < old) await Deno.remove(path).catch(ignore("another process has removed it"));
    }
    const objects = (await filesIn(this.#objects)).toSorted((a, b) => a.usedAt - b.usedAt);
    let total = objects.reduce((sum, { bytes }) => sum + bytes, 0);
    if (total <= this.#maxBytes) return;
    for (const { path, bytes } of objects) {
      if (total <= this.#maxBytes * KEPT_PART) break;
      await Deno.remove(path).catch(ignore("another process has removed it"));
      total -= bytes;
    }
    for (const { name, record } of await this.#records()) {
      if (await this.#hasObject(record)) continue;
      await Deno.remove(join(this.#entries, name)).catch(ignore("another process has removed it"));
    }
  }

  /** The artefacts, with the time of their last use in `ms`. */
  async list(): Promise<(StoredArtifact & { usedAt: number })[]> {
    const used = new Map((await filesIn(this.#objects)).map(({ name, usedAt }) => [name, usedAt]));
    return (await this.#records()).flatMap(({ record }) => {
      const usedAt = record && used.get(objectName(record.digest));
      return record && usedAt !== undefined ? [{ ...record, usedAt }] : [];
    });
  }

  /** `bytes` of all files: two URLs may have one file. */
  async size(): Promise<number> {
    return (await filesIn(this.#objects)).reduce((sum, { bytes }) => sum + bytes, 0);
  }

  /** Removes every artefact. VMs that are reading one read it to its end. */
  async clear(): Promise<void> {
    for (const folder of [this.#entries, this.#objects]) {
      for (const { path } of await filesIn(folder)) {
        await Deno.remove(path).catch(ignore("another process has removed it"));
      }
    }
  }

  async #records(): Promise<{ name: string; record?: StoredArtifact }[]> {
    return await Promise.all(
      (await filesIn(this.#entries)).map(async ({ name }) => ({
        name,
        record: await this.#readRecord(name),
      })),
    );
  }

  async #hasObject(record: StoredArtifact | undefined): Promise<boolean> {
    if (!record) return false;
    return await ifFound(Deno.lstat(join(this.#objects, objectName(record.digest)))) !== undefined;
  }

  /** Reads a record; `undefined` for one that is missing, damaged or another program's. */
  async #readRecord(name: string): Promise<StoredArtifact | undefined> {
    using file = await openOwn(join(this.#entries, name));
    if (!file || (await file.stat()).size > RECORD_MAX) return undefined;
    try {
      const text = await new Response(file.readable).text();
      const { registry, url, digest, bytes, stored_at } = objectOf(JSON.parse(text));
      const parsed = parseDigest(digest);
      if (!parsed || typeof registry !== "string" || typeof url !== "string") return undefined;
      if (typeof bytes !== "number" || !Number.isSafeInteger(bytes) || bytes < 0) return undefined;
      return { registry, url, digest: parsed, bytes, stored_at: String(stored_at) };
    } catch {
      return undefined;
    }
  }
}

/** The part of the store that a copy needs. */
interface Room {
  /** counts `bytes` as being written; negative ones are no more */
  grow(bytes: number): void;
  hasRoom(): Promise<boolean>;
}

/** A copy that is being written. Its writer waits for the disk, so that it holds no more than one piece. */
export class Copy {
  bytes = 0;
  readonly #file: Deno.FsFile;
  readonly #hashers: Hasher[];
  readonly #room: Room;
  #lookedAt = 0;
  #isOpen = true;

  constructor(file: Deno.FsFile, readonly path: string, hashers: Hasher[], room: Room) {
    this.#file = file;
    this.#hashers = hashers;
    this.#room = room;
  }

  /** @returns false for a copy that has become too long */
  async write(piece: Uint8Array): Promise<boolean> {
    this.bytes += piece.length;
    this.#room.grow(piece.length);
    if (this.bytes > ARTIFACT_MAX) return false;
    if (this.bytes - this.#lookedAt > ROOM_STEP) {
      this.#lookedAt = this.bytes;
      if (!await this.#room.hasRoom()) return false;
    }
    for (const hasher of this.#hashers) hasher.update(piece);
    await writeAll(this.#file, piece);
    return true;
  }

  /** Ends the copy. */
  async digests(): Promise<Digest[]> {
    await this.#file.syncData();
    return this.#hashers.map((hasher) => hasher.digest());
  }

  /** Removes the copy, unless it was kept. */
  async drop(): Promise<void> {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#room.grow(-this.bytes);
    this.#file.close();
    await Deno.remove(this.path).catch(ignore("it is an artefact now"));
  }
}

/** An artefact that is being read. */
export class OpenArtifact {
  readonly #file: Deno.FsFile;
  readonly #hasher: Hasher;
  readonly #discard: () => Promise<unknown>;
  /** read, and not returned yet */
  #held?: Uint8Array;
  /** a piece is valid until the next is asked for, while one is held */
  #buffers?: Uint8Array[];
  #isOpen = true;

  private constructor(
    file: Deno.FsFile,
    readonly record: StoredArtifact,
    hasher: Hasher,
    discard: () => Promise<unknown>,
  ) {
    this.#file = file;
    this.#hasher = hasher;
    this.#discard = discard;
  }

  /**
   * A short artefact is read and hashed at once.
   * @returns `undefined` for one whose bytes have changed, which is removed
   */
  static async of(
    file: Deno.FsFile,
    record: StoredArtifact,
    discard: () => Promise<unknown>,
  ): Promise<OpenArtifact | undefined> {
    const artifact = new OpenArtifact(file, record, await hasherOf(algorithmOf(record.digest)), discard);
    if (record.bytes > WHOLE_MAX) return artifact;
    // One more: a file that has grown is another one.
    const whole = new Uint8Array(record.bytes + 1);
    let count = 0;
    for (let read = await file.read(whole); read; read = await file.read(whole.subarray(count))) {
      count += read;
    }
    artifact.#hasher.update(whole.subarray(0, count));
    if (!await artifact.#isWhole(count)) return undefined;
    artifact.#held = whole.subarray(0, count);
    artifact.close();
    return artifact;
  }

  #count = 0;

  /**
   * The next piece. The last one is returned once the whole artefact has its digest, so that a
   * changed one never looks complete.
   *
   * @throws {SbxError} `cache.damaged`: it has changed on disk, and is removed
   */
  async read(): Promise<Uint8Array | null> {
    const held = this.#held;
    this.#held = undefined;
    if (!this.#isOpen) return held && held.length > 0 ? held : null;
    const next = await this.#readPiece();
    if (next) {
      this.#count += next.length;
      this.#held = next;
      return held ?? await this.read();
    }
    if (await this.#isWhole(this.#count)) {
      this.close();
      return held ?? null;
    }
    throw new SbxError("cache.damaged", `the copy of ${this.record.url} in the cache has changed on disk`, {
      hint: "it was removed: send the request again",
    });
  }

  close(): void {
    if (!this.#isOpen) return;
    this.#isOpen = false;
    this.#file.close();
  }

  async #readPiece(): Promise<Uint8Array | undefined> {
    this.#buffers ??= [new Uint8Array(CHUNK), new Uint8Array(CHUNK)];
    const [buffer, other] = this.#buffers;
    this.#buffers = [other, buffer];
    const count = await this.#file.read(buffer);
    if (count === null) return undefined;
    const bytes = buffer.subarray(0, count);
    this.#hasher.update(bytes);
    return bytes;
  }

  async #isWhole(count: number): Promise<boolean> {
    const { bytes, digest } = this.record;
    if (count === bytes && this.#hasher.digest() === digest) return true;
    this.close();
    await this.#discard();
    return false;
  }
}

/** @throws {SbxError} `cache.invalid` */
async function requireFolder(path: string): Promise<void> {
  const { isDirectory } = await Deno.lstat(path);
  if (isDirectory) return;
  throw new SbxError("cache.invalid", `${path} is a link, and the cache has to be a folder of its own`, {
    hint: "remove the link; sbx makes the folder",
  });
}

/** Opens a file of this user for reading; `undefined` for a link, for anything else, and for another size. */
async function openOwn(path: string, bytes?: number): Promise<Deno.FsFile | undefined> {
  const named = await ifFound(Deno.lstat(path));
  if (!named?.isFile || named.uid !== Deno.uid()) return undefined;
  const file = await ifFound(Deno.open(path));
  if (!file) return undefined;
  const { dev, ino, size } = await file.stat();
  if (dev === named.dev && ino === named.ino && (bytes === undefined || size === bytes)) return file;
  file.close();
  return undefined;
}

async function filesIn(folder: string) {
  const files: { name: string; path: string; bytes: number; usedAt: number }[] = [];
  for await (const { name, isFile } of Deno.readDir(folder)) {
    const path = join(folder, name);
    const info = isFile ? await ifFound(Deno.lstat(path)) : undefined;
    if (info) files.push({ name, path, bytes: info.size, usedAt: info.mtime?.getTime() ?? 0 });
  }
  return files;
}
