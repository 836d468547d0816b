/** Bare repositories of sbx beside a VM: the brought-in work, and briefly the returning work. */
import { join } from "node:path";
import { z } from "zod";
import { copySparse } from "../base/copy/mod.ts";
import { ifFound, SbxError } from "../base/error/mod.ts";
import { lockWithin, writeAtomic } from "../base/home/mod.ts";
import { Git } from "./git.ts";
import { parseRecord, type RepositoryRecord } from "./record.ts";
import type { Source } from "./source.ts";

/** A bare repository of sbx. */
export interface Store {
  dir: string;
  git: Git;
  /** folder of the person's own objects that are read too, quoted for a list of such folders; "" for none */
  alternates: string;
}

/** For folders: files are bytes, whatever their .gitattributes say. */
const BYTES_ONLY = "* -text -eol -ident -filter -diff -merge -working-tree-encoding\n";

/** Store of a source, at a path that may not exist yet. */
export async function storeOf(
  { git, isRepository }: Pick<Source, "git" | "isRepository">,
  dir: string,
): Promise<Store> {
  const objects = isRepository
    ? await git.text(["rev-parse", "--path-format=absolute", "--git-path", "objects"])
    : undefined;
  return { dir, git: Git.ofStore(dir), alternates: objects === undefined ? "" : quoted(objects) };
}

/** Makes the store of a source, unless it is there. */
export async function initStore(
  { git, isRepository }: Pick<Source, "git" | "isRepository">,
  store: Store,
): Promise<void> {
  if (await Deno.lstat(join(store.dir, "HEAD")).then(() => true, () => false)) return;
  const format = isRepository ? await git.text(["rev-parse", "--show-object-format"]) : "sha1";
  await makeStore(store, format);
  if (!isRepository) await writeInfo(store, "attributes", BYTES_ONLY);
  const shallow = isRepository
    ? await git.text(["rev-parse", "--path-format=absolute", "--git-path", "shallow"])
    : undefined;
  if (shallow) await copyIfThere(shallow, join(store.dir, "shallow"));
}

/** Makes an empty store that reads the objects of another as well. */
export async function makeBeside(base: Store, dir: string): Promise<Store> {
  const store = { dir, git: Git.ofStore(dir), alternates: quoted(join(base.dir, "objects")) };
  await makeStore(store, await base.git.text(["rev-parse", "--show-object-format"]));
  await copyIfThere(join(base.dir, "shallow"), join(dir, "shallow"));
  return store;
}

async function makeStore({ dir, git, alternates }: Store, format: string): Promise<void> {
  await Deno.mkdir(dir, { recursive: true, mode: 0o700 });
  await git.run(["init", "--quiet", "--bare", "--template=", `--object-format=${format}`, dir]);
  await Deno.mkdir(join(dir, "info"), { recursive: true });
  if (alternates === "") return;
  await Deno.mkdir(join(dir, "objects", "info"), { recursive: true });
  await Deno.writeTextFile(join(dir, "objects", "info", "alternates"), `${alternates}\n`);
}

async function writeInfo({ dir }: Store, name: string, text: string): Promise<void> {
  await Deno.writeTextFile(join(dir, "info", name), text);
}

async function copyIfThere(from: string, to: string): Promise<void> {
  await Deno.copyFile(from, to).catch((error) => {
    if (!(error instanceof Deno.errors.NotFound)) throw error;
  });
}

/** A path in git's list of object folders, where a colon would end it. */
export function quoted(path: string): string {
  return `"${path.replaceAll("\\", "\\\\").replaceAll('"', '\\"')}"`;
}

/** Longest wait for another program that takes work, in `ms`. */
const LOCK_MS = 60_000;
/** Files that programs lock, and the reason why others wait. */
const LOCKS = {
  take: { file: ".lock", busy: "taking work from this VM" },
  bring: { file: ".bring.lock", busy: "bringing files into this VM" },
  collect: { file: ".collect.lock", busy: "reading the work in this VM" },
};

/** Stores of {@linkcode Room.temporary}, and the longest wait in `ms` to be alone with them. */
const INCOMING = /^incoming-[0-9a-f-]{36}\.git$/;
const SWEEP_MS = 50;

/** Work of a VM that no pull took, as it was last seen. */
export const Untaken = z.strictObject({
  commits: z.int().min(0),
  files: z.int().min(0),
  at: z.iso.datetime(),
});
export type Untaken = z.infer<typeof Untaken>;

/** Files recording one VM's brought-in sources. */
export class Room {
  /** @param dir folder beside the VM's record, which goes with the VM */
  constructor(readonly dir: string) {}

  /** @throws {SbxError} `repo.damaged` */
  async read(): Promise<RepositoryRecord | undefined> {
    const text = await ifFound(Deno.readTextFile(this.#path));
    if (text === undefined) return undefined;
    try {
      return parseRecord(text);
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
   * Waits until no other program does the same with the VM: `take` its work and change the record, `bring`
   * something in, or `collect` its work in the guest, which moves one ref there.
   *
   * @param wait_ms longest wait
   * @returns lock, released by closing it
   * @throws {SbxError} `repo.busy`
   */
  async lock(what: keyof typeof LOCKS = "take", wait_ms = LOCK_MS): Promise<Deno.FsFile> {
    const { file: name, busy } = LOCKS[what];
    const file = await this.#open(name);
    if (await lockWithin(file, wait_ms)) return file;
    file.close();
    throw new SbxError("repo.busy", `another program is ${busy}`, { hint: "try again later" });
  }

  /**
   * A store for a new unit; the lock for `bring` is held.
   *
   * @param taken stores that other units have, or will have
   */
  async newStore(taken: readonly string[]): Promise<string> {
    let number = 0;
    while (taken.includes(`${number}.git`)) number++;
    // Of an attempt that failed: no unit has it.
    await Deno.remove(this.store(`${number}.git`), { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
    return `${number}.git`;
  }

  /** Copies the brought-in sources to another VM's room. @throws {SbxError} `repo.damaged`, `disk.full` */
  async copyTo(other: Room): Promise<void> {
    // Read first: a running push adds to the stores the objects its record will need.
    const record = await this.read();
    if (!record) return;
    await Deno.mkdir(other.dir, { mode: 0o700 });
    for (const { store } of record.sources.flatMap(({ units }) => units)) {
      await copySparse(this.store(store), other.store(store));
    }
    await other.write(record);
  }

  /** Keeps the amount of work that no pull took, for lists of VMs that are stopped. */
  async noteUntaken(untaken: Untaken): Promise<void> {
    await writeAtomic(this.#untakenPath, JSON.stringify(untaken));
  }

  /** The amount that was noted last. @returns undefined: none, or it cannot be read */
  async untaken(): Promise<Untaken | undefined> {
    const text = await ifFound(Deno.readTextFile(this.#untakenPath));
    if (text === undefined) return undefined;
    try {
      return Untaken.parse(JSON.parse(text));
    } catch {
      return undefined;
    }
  }

  /** Path of the store of one unit. */
  store(name: string): string {
    return join(this.dir, name);
  }

  /**
   * Begins to take work into stores of {@linkcode temporary}. Stores of programs that were killed are
   * removed, unless another program is at the same: these share a lock of the folder, which the
   * kernel frees with its program.
   *
   * @returns lock, released by its disposal
   */
  async collecting(): Promise<Disposable> {
    const left: string[] = [];
    for await (const { name } of Deno.readDir(this.dir)) if (INCOMING.test(name)) left.push(name);
    if (left.length > 0) {
      using alone = await Deno.open(this.dir);
      if (await lockWithin(alone, SWEEP_MS)) {
        for (const name of left) await Deno.remove(join(this.dir, name), { recursive: true });
      }
    }
    const file = await Deno.open(this.dir);
    await file.lock(false);
    return file;
  }

  /** A new path for a store that is removed again; only while {@linkcode collecting}. */
  temporary(): string {
    return join(this.dir, `incoming-${crypto.randomUUID()}.git`);
  }

  #open(lock: string): Promise<Deno.FsFile> {
    return Deno.open(join(this.dir, lock), { create: true, write: true, mode: 0o600 });
  }

  get #untakenPath(): string {
    return join(this.dir, "untaken.json");
  }

  get #path(): string {
    return join(this.dir, "record.json");
  }
}
