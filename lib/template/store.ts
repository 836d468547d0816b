import { join } from "node:path";
import { SbxError } from "../base/error/mod.ts";
import { blake3File, fileStamp } from "../base/hash/mod.ts";
import { type Home, writeAtomic } from "../base/home/mod.ts";
import { templateId, type TemplateKey, TemplateRecord } from "./record.ts";

const RECORD = "template.json";
/** Folder with the files of the machine, beside the record. */
const IMAGE = "image";
/** Begin of the name of a template that is being made. */
const UNFINISHED = ".making-";
/** Age from which nobody works on it any more, in `ms`. */
const UNFINISHED_AGE_MS = 600_000;
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

/** The templates of one home, each in a folder named by its id. */
export class TemplateStore {
  readonly #dir: string;

  constructor({ templatesDir }: Pick<Home, "templatesDir">) {
    this.#dir = templatesDir;
  }

  /** All templates with a record that can be read, in the order of their making. */
  async list(): Promise<Template[]> {
    const templates: Template[] = [];
    for (const id of await this.#names()) {
      if (id.startsWith(UNFINISHED)) continue;
      const template = await this.#read(id).catch(() => undefined);
      if (template) templates.push(template);
    }
    return templates.sort((a, b) => a.record.created_at < b.record.created_at ? -1 : 1);
  }

  /**
   * The template for a key, verified: a file that was not written since is not read again.
   *
   * @returns undefined when there is none
   * @throws {SbxError} `template.damaged`
   */
  async find(key: TemplateKey): Promise<Template | undefined> {
    const id = templateId(key);
    if (!await Deno.lstat(join(this.#dir, id)).catch(() => undefined)) return undefined;
    try {
      const template = await this.#read(id);
      await this.#verify(template);
      return template;
    } catch (cause) {
      const reason = cause instanceof Error ? cause.message : String(cause);
      throw new SbxError("template.damaged", `the template ${id} is damaged: ${reason}`, { cause });
    }
  }

  /** Makes a template: `fill` writes the machine's image into a folder, which replaces an earlier template once it is whole. */
  async make(key: TemplateKey, fill: (imageDir: string) => Promise<void>): Promise<Template> {
    const id = templateId(key);
    await Deno.mkdir(this.#dir, { recursive: true, mode: 0o700 });
    const work = await Deno.makeTempDir({ dir: this.#dir, prefix: UNFINISHED });
    try {
      const imageDir = join(work, IMAGE);
      await Deno.mkdir(imageDir, { mode: 0o700 });
      await fill(imageDir);
      const record: TemplateRecord = {
        schema: "sbx.template.v1",
        created_at: new Date().toISOString(),
        key,
        files: await describeFiles(imageDir),
      };
      await writeAtomic(join(work, RECORD), JSON.stringify(record, null, 2) + "\n");
      await this.remove(id);
      await Deno.rename(work, join(this.#dir, id));
      return await this.#read(id);
    } catch (error) {
      await Deno.remove(work, { recursive: true }).catch(() => {});
      throw error;
    }
  }

  async remove(id: string): Promise<void> {
    await Deno.remove(join(this.#dir, id), { recursive: true }).catch((error) => {
      if (!(error instanceof Deno.errors.NotFound)) throw error;
    });
  }

  /** Removes what earlier runs left unfinished, and what cannot be read. @returns number of removed folders */
  async clean(): Promise<number> {
    const whole = new Set((await this.list()).map(({ id }) => id));
    let removed = 0;
    for (const name of await this.#names()) {
      if (whole.has(name) || await this.#isBeingMade(name)) continue;
      await this.remove(name);
      removed++;
    }
    return removed;
  }

  /** Another home's service may share the folder. */
  async #isBeingMade(name: string): Promise<boolean> {
    if (!name.startsWith(UNFINISHED)) return false;
    const { mtime } = await Deno.stat(join(this.#dir, name));
    return Date.now() - mtime!.getTime() < UNFINISHED_AGE_MS;
  }

  async #names(): Promise<string[]> {
    try {
      return (await Array.fromAsync(Deno.readDir(this.#dir))).map(({ name }) => name);
    } catch (error) {
      if (error instanceof Deno.errors.NotFound) return [];
      throw error;
    }
  }

  async #read(id: string): Promise<Template> {
    const dir = join(this.#dir, id);
    const record = TemplateRecord.parse(JSON.parse(await Deno.readTextFile(join(dir, RECORD))));
    if (templateId(record.key) !== id) throw new Error("its record is another template's");
    const bytes = record.files.reduce((sum, file) => sum + file.bytes, 0);
    return { id, record, bytes, imageDir: join(dir, IMAGE) };
  }

  async #verify({ record, imageDir }: Template): Promise<void> {
    for (const { name, hash, stamp } of record.files) {
      const path = join(imageDir, name);
      if (await fileStamp(path) === stamp) continue;
      if ((await blake3File(path)).hash !== hash) throw new Error(`${name} does not match its hash`);
    }
  }
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
