/** Templates of booted guests: their keys, their folders and the making of one. */
import { join } from "node:path";
import { ignore, SbxError } from "../../base/error/mod.ts";
import { blake3, blake3File, fileStamp } from "../../base/hash/mod.ts";
import { type Home, lockWithin, writeAtomic } from "../../base/home/mod.ts";
import { ARCHES } from "../../base/arch/mod.ts";
import { z } from "zod";
import { rejectAfter, timeLimit } from "../../base/time/mod.ts";
import { type Hypervisor, type MachineSpec, TEMPLATE_READY } from "../vm/mod.ts";

const RECORD = "template.json";
/** Begin of the name of the folder with the machine's files. */
const IMAGE = "image-";
/** Begin of the name of a template that is being made; its folder is locked by the maker. */
const UNFINISHED = ".making-";
/** Begin of the name of a template that is being removed. */
const REMOVED = ".removed-";
/** Names of a template's folder. */
const TEMPLATE = /^[0-9a-f]{16}$/;
/** Longest wait for a lock that should be free, in `ms`. */
const LOCK_MS = 100;
/** Longest wait for another service that puts its template into its place, in `ms`. */
const INSTALL_MS = 10_000;
/** Permissions with which others could put a machine of theirs into the folder. */
const WRITABLE_BY_OTHERS = 0o022;
/** Size of the blocks that `stat` counts, in `bytes`. */
const BLOCK_BYTES = 512;

/** An installed template. */
export interface Template {
  id: string;
  record: TemplateRecord;
  /** on the disk */
  bytes: number;
  /** folder of its machine's image */
  imageDir: string;
}

/** The templates of one home, or of several that name the same folder; each in a folder named by its id. */
export class TemplateStore {
  readonly #dir: string;

  constructor({ templatesDir }: Pick<Home, "templatesDir">) {
    this.#dir = templatesDir;
  }

  /** All templates with a record that can be read, in the order of their making. */
  async list(): Promise<Template[]> {
    const ids = (await this.#names()).filter((name) => TEMPLATE.test(name));
    const templates = await Promise.all(ids.map((id) => this.get(id)));
    return templates.filter((template) => template !== undefined)
      .sort((a, b) => a.record.created_at < b.record.created_at ? -1 : 1);
  }

  /** The template with an id, its files unread; undefined when its record cannot be read. */
  async get(id: string): Promise<Template | undefined> {
    return await this.#read(id).catch(() => undefined);
  }

  /**
   * The template for a key, verified: a file without a write since is not read again.
   *
   * @returns undefined without one
   * @throws {SbxError} `template.damaged`, `template.folder`
   */
  async find(key: TemplateKey): Promise<Template | undefined> {
    const id = templateId(key);
    if (!await Deno.lstat(join(this.#dir, id)).catch(() => undefined)) return undefined;
    await this.#requireOwn();
    try {
      const template = await this.#read(id);
      await verify(template);
      return template;
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SbxError("template.damaged", `the template ${id} is damaged: ${reason}`, { cause });
    }
  }

  /**
   * Makes a template, which replaces an earlier one once it is whole.
   *
   * @param fill writes the machine's image into a folder
   * @throws {SbxError} `template.folder`, and what `fill` throws
   */
  async make(key: TemplateKey, fill: (imageDir: string) => Promise<void>): Promise<Template> {
    const id = templateId(key);
    const work = await this.#makeWork();
    try {
      using lock = await Deno.open(work);
      await lockWithin(lock, LOCK_MS);
      const image = IMAGE + crypto.randomUUID();
      const imageDir = join(work, image);
      await Deno.mkdir(imageDir, { mode: 0o700 });
      await fill(imageDir);
      const record: TemplateRecord = {
        schema: "sbx.template.v1",
        created_at: new Date().toISOString(),
        key,
        image,
        files: await describeFiles(imageDir),
      };
      await writeAtomic(join(work, RECORD), JSON.stringify(record, null, 2) + "\n");
      return await this.#install(work, id);
    } catch (error) {
      await Deno.remove(work, { recursive: true }).catch(ignore("removed with other unfinished templates"));
      throw error;
    }
  }

  /**
   * Removes a template at once, as a whole: a machine that starts from it has its files open, or finds none.
   */
  async remove(id: string): Promise<void> {
    const removed = join(this.#dir, REMOVED + crypto.randomUUID());
    try {
      await Deno.rename(join(this.#dir, id), removed);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return;
      throw error;
    }
    await Deno.remove(removed, { recursive: true });
  }

  /**
   * Removes what earlier runs left unfinished, and templates that cannot be read;
   * nothing else that is in the folder.
   *
   * @returns number of removed folders
   */
  async clean(): Promise<number> {
    let removed = 0;
    for (const name of await this.#names()) {
      if (!await this.#isRest(name)) continue;
      await Deno.remove(join(this.#dir, name), { recursive: true });
      removed++;
    }
    return removed;
  }

  async #isRest(name: string): Promise<boolean> {
    if (name.startsWith(REMOVED)) return true;
    // Another home's service may share the folder.
    if (name.startsWith(UNFINISHED)) return await isUnlocked(join(this.#dir, name));
    return TEMPLATE.test(name) && await this.get(name) === undefined;
  }

  async #names(): Promise<string[]> {
    try {
      return (await Array.fromAsync(Deno.readDir(this.#dir))).map(({ name }) => name);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  async #makeWork(): Promise<string> {
    try {
      await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
      await this.#requireOwn();
      return await Deno.makeTempDir({ dir: this.#dir, prefix: UNFINISHED });
    } catch (cause) {
      if (cause instanceof SbxError) throw cause;
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SbxError("template.folder", `no template can be written to ${this.#dir}: ${reason}`, {
        cause,
        hint: "SBX_TEMPLATES_DIR names another folder",
      });
    }
  }

  /** A user with write access to the folder decides what runs in every VM, with access to QEMU's devices. */
  async #requireOwn(): Promise<void> {
    const { uid, mode } = await Deno.stat(this.#dir);
    if (uid === Deno.uid() && ((mode ?? 0) & WRITABLE_BY_OTHERS) === 0) return;
    throw new SbxError("template.folder", `${this.#dir} is not yours alone: templates in it are not used`, {
      hint: "chmod go-w, or another folder in SBX_TEMPLATES_DIR",
    });
  }

  /** Puts a template into its place; one at a time, also across processes that share the folder. */
  async #install(work: string, id: string): Promise<Template> {
    using lock = await Deno.open(this.#dir);
    await lockWithin(lock, INSTALL_MS);
    await this.remove(id);
    await Deno.rename(work, join(this.#dir, id));
    return await this.#read(id);
  }

  async #read(id: string): Promise<Template> {
    const dir = join(this.#dir, id);
    const record = readRecord(await Deno.readTextFile(join(dir, RECORD)));
    if (templateId(record.key) !== id) throw new Error("its record is another template's");
    const bytes = record.files.reduce((sum, file) => sum + file.bytes, 0);
    return { id, record, bytes, imageDir: join(dir, record.image) };
  }
}

function readRecord(text: string): TemplateRecord {
  try {
    return TemplateRecord.parse(JSON.parse(text));
  } catch (cause) {
    throw new Error(`its ${RECORD} is not one that this sbx wrote`, { cause });
  }
}

async function verify({ record, imageDir }: Template): Promise<void> {
  for (const { name, hash, stamp } of record.files) {
    const path = join(imageDir, name);
    if (await fileStamp(path) === stamp) continue;
    if ((await blake3File(path)).hash !== hash) throw new Error(`${name} does not match its hash`);
  }
}

async function isUnlocked(dir: string): Promise<boolean> {
  using file = await Deno.open(dir);
  return await lockWithin(file, LOCK_MS);
}

async function describeFiles(dir: string): Promise<TemplateRecord["files"]> {
  const names = (await Array.fromAsync(Deno.readDir(dir))).map(({ name }) => name).sort();
  return await Promise.all(names.map(async (name) => {
    const path = join(dir, name);
    const { hash } = await blake3File(path);
    const [stamp, { blocks }] = await Promise.all([fileStamp(path), Deno.stat(path)]);
    return { name, hash, stamp, bytes: (blocks ?? 0) * BLOCK_BYTES };
  }));
}

const hash = z.string().regex(/^[0-9a-f]{64}$/);

/** Everything that the memory of a booted guest depends on: another value needs another template. */
export const TemplateKey = z.strictObject({
  arch: z.enum(ARCHES),
  cpus: z.int().positive(),
  ram_mb: z.int().positive(),
  accelerator: z.enum(["kvm", "tcg", "vz"]),
  assets: z.strictObject({ kernel: hash, initrd: hash, rootfs: hash, layer: hash.optional() }),
  host: z.strictObject({ hypervisor: z.string(), processor: z.string(), machine: z.string() }),
});
export type TemplateKey = z.infer<typeof TemplateKey>;

/** template.json: a template's key, and the files of its machine. */
const TemplateRecord = z.strictObject({
  schema: z.literal("sbx.template.v1"),
  created_at: z.iso.datetime(),
  key: TemplateKey,
  image: z.string().regex(/^image-[0-9a-f-]+$/).describe("folder of the files, another one for each making"),
  files: z.array(z.strictObject({
    name: z.string(),
    hash,
    stamp: z.string().describe(
      "identity of the file that has this hash, so that an unchanged one is not read",
    ),
    bytes: z.int().describe("space on the disk: memory that was never used takes none"),
  })),
});
export type TemplateRecord = z.infer<typeof TemplateRecord>;

/** Length of a template's id, in hexadecimal digits. */
const ID_LENGTH = 16;

/** Name of the template for a key, and of its folder. */
export function templateId(key: TemplateKey): string {
  return blake3(JSON.stringify(TemplateKey.parse(key))).slice(0, ID_LENGTH);
}

/** Longest boot of a template's machine, in `ms`: it runs beside the VMs of a person, and has no hurry. */
const BOOT_DEADLINE_MS = timeLimit(180_000);
/** Time for the guest to come to rest after its last word, in `ms`. */
const SETTLE_MS = 500;

/** A machine for a template: no disk for writes, no workspace. */
export type TemplateMachine = Omit<MachineSpec, "scratch" | "workspace" | "onConsole" | "onDiskFull">;

/**
 * Boots a machine until its guest waits for what belongs to a VM, and writes it down.
 *
 * @param imageDir folder that exists and is empty
 * @throws {SbxError} `template.failed`: the guest did not get that far
 */
export async function writeTemplate(
  hypervisor: Hypervisor,
  machine: TemplateMachine,
  imageDir: string,
): Promise<void> {
  const ready = Promise.withResolvers<void>();
  let said = "";
  const booting = await hypervisor.start({
    ...machine,
    onConsole: (bytes) => {
      said = (said + new TextDecoder().decode(bytes)).slice(-1024);
      if (said.includes(TEMPLATE_READY)) ready.resolve();
    },
    onDiskFull: () => {},
  });
  const failed = (how: string) =>
    new SbxError("template.failed", `the machine of a template ${how}: ${said.trim()}`);
  try {
    await Promise.race([
      ready.promise,
      booting.exited.then(() => {
        throw failed("ended");
      }),
      rejectAfter(BOOT_DEADLINE_MS, () => failed("was not ready in time")),
    ]);
    await new Promise((resolve) => setTimeout(resolve, SETTLE_MS));
    await booting.snapshot({ dir: imageDir }).catch((cause) => {
      throw new SbxError("template.failed", `the machine of a template was not written: ${cause.message}`, {
        cause,
      });
    });
  } finally {
    await booting.kill();
  }
}
