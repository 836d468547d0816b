/** The kernel of an image and its modules. */
import { basename, join } from "node:path";
import { SbxError } from "../../base/error/mod.ts";
import { requireTools, run, UNPACKERS } from "./command.ts";

/** Suffix of modules that are packed, as trixie's are. */
const PACKED = ".xz";

/** Kernel modules in one `/lib/modules/<version>`. */
export class ModuleTree {
  readonly version: string;
  /** the folder `/lib/modules/<version>` */
  readonly dir: string;
  readonly #files: Map<string, string>;
  readonly #builtin: Set<string>;
  readonly #signal?: AbortSignal;
  readonly #known = new Map<string, Promise<KernelModule>>();

  private constructor(dir: string, files: Map<string, string>, builtin: Set<string>, signal?: AbortSignal) {
    this.#signal = signal;
    this.version = basename(dir);
    this.dir = dir;
    this.#files = files;
    this.#builtin = builtin;
  }

  /** Lists the modules of `dir`, a folder named after the kernel's version. */
  static async open(dir: string, signal?: AbortSignal): Promise<ModuleTree> {
    const builtin = await Deno.readTextFile(join(dir, "modules.builtin"));
    const files = new Map<string, string>();
    for await (const path of walk(dir, "kernel")) {
      if (path.endsWith(".ko") || path.endsWith(`.ko${PACKED}`)) files.set(moduleName(path), path);
    }
    return new ModuleTree(dir, files, new Set(builtin.trim().split("\n").map(moduleName)), signal);
  }

  /**
   * Modules of these names with their dependencies, in load order. Omits modules built into the kernel.
   *
   * @throws {SbxError} `image.module.not_found`
   */
  async loadOrder(names: string[]): Promise<KernelModule[]> {
    const order = new Map<string, KernelModule>();
    const visit = async (name: string) => {
      if (order.has(name) || this.#builtin.has(name)) return;
      const module = await this.#module(name);
      for (const dependency of module.dependencies) await visit(dependency);
      order.set(name, module);
    };
    for (const name of names) await visit(name);
    return [...order.values()];
  }

  #module(name: string): Promise<KernelModule> {
    const known = this.#known.get(name);
    if (known) return known;
    const module = this.#open(name);
    this.#known.set(name, module);
    return module;
  }

  async #open(name: string): Promise<KernelModule> {
    const path = this.#files.get(name);
    if (!path) {
      throw new SbxError("image.module.not_found", `the kernel ${this.version} has no module ${name}`);
    }
    const bytes = await this.#read(path);
    return {
      name,
      path: path.replace(/\.xz$/, ""),
      dependencies: dependenciesOf(bytes),
      aliases: infoOf(bytes, "alias").map(requestName),
      bytes: stripSignature(bytes),
    };
  }

  /** Names of the modules in folders such as `kernel/net/bridge`, sorted. */
  inFolders(folders: readonly string[]): string[] {
    const found = [...this.#files].filter(([, path]) =>
      folders.some((folder) => path.startsWith(`${folder}/`))
    );
    return found.map(([name]) => name).sort();
  }

  /**
   * Content of a module; the guest's busybox loads only unpacked ones, and unpacking takes time of each boot.
   */
  async #read(path: string): Promise<Uint8Array> {
    const file = join(this.dir, path);
    if (!path.endsWith(PACKED)) return await Deno.readFile(file);
    await requireTools({ xz: UNPACKERS.xz });
    return await run(["xz", "-dc", file], { doing: `unpacking ${path}`, signal: this.#signal });
  }
}

/** One kernel module. */
export interface KernelModule {
  /** with underscores, as the kernel spells it */
  name: string;
  /** relative to `/lib/modules/<version>` */
  path: string;
  /** names of the modules it depends on */
  dependencies: string[];
  /** other names by which the kernel asks for it, with underscores */
  aliases: string[];
  bytes: Uint8Array;
}

/** Module name of a path: `kernel/fs/erofs/erofs.ko` → `erofs`, with `_` for every `-`. */
export function moduleName(path: string): string {
  return basename(path).replace(/\.ko(\.xz)?$/, "").replaceAll("-", "_");
}

function dependenciesOf(bytes: Uint8Array): string[] {
  return (infoOf(bytes, "depends")[0] ?? "").split(",").filter(Boolean).map(moduleName);
}

/** Values of a key in a module's `.modinfo`: NUL-terminated strings such as `depends=a,b`. */
function infoOf(bytes: Uint8Array, key: string): string[] {
  const text = new TextDecoder("latin1").decode(bytes);
  return Array.from(text.matchAll(new RegExp(`\\0${key}=([\\w,-]*)(?=\\0)`, "g")), ([, value]) => value);
}

/** A name or an alias as {@linkcode KernelModule.aliases} has it. */
function requestName(name: string): string {
  return name.replaceAll("-", "_");
}

const SIGNATURE_MAGIC = "~Module signature appended~\n";
/**
 * Length of `struct module_signature` before the magic, in `bytes`; its last four are the signature's length.
 */
const SIGNATURE_INFO = 12;

/**
 * Removes the appended signature of a module: checking it costs time at every boot, and the guest does not
 * require it.
 */
export function stripSignature(bytes: Uint8Array): Uint8Array {
  const end = bytes.length - SIGNATURE_MAGIC.length;
  if (end < SIGNATURE_INFO || new TextDecoder("latin1").decode(bytes.subarray(end)) !== SIGNATURE_MAGIC) {
    return bytes;
  }
  const length = new DataView(bytes.buffer, bytes.byteOffset + end - 4, 4).getUint32(0);
  return bytes.subarray(0, Math.max(end - SIGNATURE_INFO - length, 0));
}

async function* walk(root: string, folder: string): AsyncGenerator<string> {
  for await (const entry of Deno.readDir(join(root, folder))) {
    const path = `${folder}/${entry.name}`;
    if (entry.isDirectory) yield* walk(root, path);
    else if (entry.isFile) yield path;
  }
}

/** Offsets in a bzImage (Linux, Documentation/x86/boot.rst). */
const SETUP_SECTORS = 0x1f1, SETUP_MAGIC = 0x202, PAYLOAD_OFFSET = 0x248, PAYLOAD_LENGTH = 0x24c;
const SECTOR = 512;

/**
 * Decompressors by magic bytes. `sizeAfter`: the kernel build appends the size, four bytes, to the stream
 * (gzip includes it). The kernel's lz4 is the legacy frame, which `lz4 -dc` reads.
 */
const FORMATS: { magic: number[]; command: string[]; sizeAfter: boolean }[] = [
  { magic: [0x02, 0x21, 0x4c, 0x18], command: ["lz4", "-dc"], sizeAfter: true },
  { magic: [0x28, 0xb5, 0x2f, 0xfd], command: ["zstd", "-dc"], sizeAfter: true },
  { magic: [0xfd, 0x37, 0x7a, 0x58, 0x5a], command: ["xz", "-dc"], sizeAfter: true },
  { magic: [0x1f, 0x8b], command: ["gzip", "-dc"], sizeAfter: false },
];

/**
 * Unpacks the kernel in Debian's `vmlinuz`: an ELF (x86_64) or an Image (arm64). QEMU boots both directly,
 * and decompressing once here saves half a second of every boot under emulation.
 *
 * @throws {SbxError} `image.kernel.invalid`: unknown compression, or no bootable kernel
 */
export async function unpackKernel(image: Uint8Array, signal?: AbortSignal): Promise<Uint8Array> {
  const payload = findPayload(image);
  const format = FORMATS.find(({ magic }) => magic.every((byte, at) => payload[at] === byte));
  if (!format) {
    if (isBootable(payload)) return payload;
    throw new SbxError(
      "image.kernel.invalid",
      "the guest's Debian kernel is packed in an unknown format",
    );
  }
  const { command, sizeAfter } = format;
  await requireTools({ [command[0]]: UNPACKERS[command[0]] });
  const input = sizeAfter && payload !== image ? payload.subarray(0, -4) : payload;
  const kernel = await run(command, { doing: "unpacking the kernel", input, signal });
  if (isBootable(kernel)) return kernel;
  throw new SbxError(
    "image.kernel.invalid",
    "the guest's Debian kernel does not unpack to a bootable kernel",
  );
}

/** Finds the compressed part of a bzImage or an EFI zboot image; any other file is its own payload. */
function findPayload(image: Uint8Array): Uint8Array {
  const view = new DataView(image.buffer, image.byteOffset, image.byteLength);
  const text = (at: number, length: number) =>
    new TextDecoder("latin1").decode(image.subarray(at, at + length));
  if (text(SETUP_MAGIC, 4) === "HdrS") {
    const start = ((image[SETUP_SECTORS] || 4) + 1) * SECTOR + view.getUint32(PAYLOAD_OFFSET, true);
    return image.subarray(start, start + view.getUint32(PAYLOAD_LENGTH, true));
  }
  if (text(0, 2) === "MZ" && text(4, 4) === "zimg") {
    const start = view.getUint32(8, true);
    return image.subarray(start, start + view.getUint32(12, true));
  }
  return image;
}

/** Tests for an ELF or an arm64 Image. */
function isBootable(kernel: Uint8Array): boolean {
  const text = (at: number, length: number) =>
    new TextDecoder("latin1").decode(kernel.subarray(at, at + length));
  return text(0, 4) === "\x7fELF" || text(56, 4) === "ARM\x64";
}
