import { basename, join } from "node:path";
import { SbxError } from "../base/error/mod.ts";

/** Kernel modules below one `/lib/modules/<version>`. */
export class ModuleTree {
  readonly version: string;
  readonly #dir: string;
  readonly #files: Map<string, string>;
  readonly #builtin: Set<string>;

  private constructor(dir: string, files: Map<string, string>, builtin: Set<string>) {
    this.version = basename(dir);
    this.#dir = dir;
    this.#files = files;
    this.#builtin = builtin;
  }

  /** Reads which modules there are; `dir` is the folder named after the kernel's version. */
  static async open(dir: string): Promise<ModuleTree> {
    const builtin = await Deno.readTextFile(join(dir, "modules.builtin"));
    const files = new Map<string, string>();
    for await (const path of walk(dir, "kernel")) {
      if (path.endsWith(".ko")) files.set(moduleName(path), path);
    }
    return new ModuleTree(dir, files, new Set(builtin.trim().split("\n").map(moduleName)));
  }

  /**
   * `wanted` and all that they need, each after what it needs. What is built into the kernel is left out.
   *
   * @throws {SbxError} `image.module.not_found`
   */
  async loadOrder(wanted: string[]): Promise<KernelModule[]> {
    const order = new Map<string, KernelModule>();
    const visit = async (name: string) => {
      if (order.has(name) || this.#builtin.has(name)) return;
      const path = this.#files.get(name);
      if (!path) {
        throw new SbxError("image.module.not_found", `the kernel ${this.version} has no module ${name}`);
      }
      const bytes = await Deno.readFile(join(this.#dir, path));
      const needs = moduleNeeds(bytes);
      for (const need of needs) await visit(need);
      order.set(name, { name, path, needs, bytes: withoutSignature(bytes) });
    };
    for (const name of wanted) await visit(name);
    return [...order.values()];
  }
}

/** One kernel module that is to be loaded. */
export interface KernelModule {
  /** with underscores, as the kernel says it */
  name: string;
  /** below `/lib/modules/<version>` */
  path: string;
  /** names of the modules that it needs */
  needs: string[];
  bytes: Uint8Array;
}

/** `kernel/fs/erofs/erofs.ko` → `erofs`; the kernel says `_` for every `-`. */
export function moduleName(path: string): string {
  return basename(path).replace(/\.ko$/, "").replaceAll("-", "_");
}

/** What a module's `.modinfo` says that it depends on: NUL-ended strings, one of which is `depends=a,b`. */
export function moduleNeeds(bytes: Uint8Array): string[] {
  const depends = new TextDecoder("latin1").decode(bytes).match(/\0depends=([\w,-]*)\0/)?.[1] ?? "";
  return depends.split(",").filter(Boolean).map(moduleName);
}

const SIGNATURE_MAGIC = "~Module signature appended~\n";
/** `struct module_signature`, which stands before the magic; its last four bytes are the signature's length. */
const SIGNATURE_INFO = 12;

/** The module without its appended signature: checking it costs time at every boot, and nothing here asks for it. */
export function withoutSignature(bytes: Uint8Array): Uint8Array {
  const end = bytes.length - SIGNATURE_MAGIC.length;
  if (end < SIGNATURE_INFO || new TextDecoder("latin1").decode(bytes.subarray(end)) !== SIGNATURE_MAGIC) {
    return bytes;
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset + end - 4, 4).getUint32(0);
  return bytes.subarray(0, Math.max(end - SIGNATURE_INFO - length, 0));
}

async function* walk(root: string, below: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(join(root, below))) {
    const path = `${below}/${entry.name}`;
    if (entry.isDirectory) yield* walk(root, path);
    else if (entry.isFile) yield path;
  }
}
