/** The initrd of an image: a newc cpio archive with the modules that mount the root file system, and init. */
import { INIT } from "./init.ts";
import { MODPROBE, MODPROBE_PATH } from "./network.ts";
import type { KernelModule, ModuleTree } from "./module.ts";

/** One entry of a cpio archive. */
type CpioEntry =
  | { path: string; kind: "directory"; mode?: number }
  | { path: string; kind: "file"; data: Uint8Array; mode?: number }
  | { path: string; kind: "character"; major: number; minor: number; mode?: number };

const TYPE_BITS = { directory: 0o040000, file: 0o100000, character: 0o020000 };
const DEFAULT_MODE = { directory: 0o755, file: 0o644, character: 0o600 };
const TRAILER = "TRAILER!!!";

/**
 * Encodes a newc cpio archive, the format the kernel unpacks as its first root file system (Linux,
 * Documentation/driver-api/early-userspace/buffer-format.rst). Owners are root and times are zero, so that
 * the same entries give the same bytes. Entries keep their order: list a folder before its content.
 */
export function encodeCpio(entries: CpioEntry[]): Uint8Array<ArrayBuffer> {
  const parts = [
    ...entries.map((entry, at) => encodeEntry(entry, at + 1)),
    encodeHeader(TRAILER, { links: 1 }),
  ];
  const out = new Uint8Array(parts.reduce((size, part) => size + part.length, 0));
  let at = 0;
  for (const part of parts) {
    out.set(part, at);
    at += part.length;
  }
  return out;
}

function encodeEntry(entry: CpioEntry, inode: number): Uint8Array {
  const mode = TYPE_BITS[entry.kind] | (entry.mode ?? DEFAULT_MODE[entry.kind]);
  const data = entry.kind === "file" ? entry.data : new Uint8Array();
  const device = entry.kind === "character" ? { major: entry.major, minor: entry.minor } : {};
  const links = entry.kind === "directory" ? 2 : 1;
  const header = encodeHeader(entry.path, { inode, mode, links, size: data.length, ...device });
  const out = new Uint8Array(align(header.length + data.length));
  out.set(header);
  out.set(data, header.length);
  return out;
}

interface HeaderFields {
  inode?: number;
  mode?: number;
  links: number;
  size?: number;
  major?: number;
  minor?: number;
}

/** Encodes magic, thirteen fields of eight hex digits, and the name with a NUL, padded to four bytes. */
function encodeHeader(
  name: string,
  { inode = 0, mode = 0, links, size = 0, major = 0, minor = 0 }: HeaderFields,
): Uint8Array {
  const encoded = new TextEncoder().encode(`${name}\0`);
  const fields = [inode, mode, 0, 0, links, 0, size, 0, 0, major, minor, encoded.length, 0];
  const hex = fields.map((field) => field.toString(16).toUpperCase().padStart(8, "0")).join("");
  const out = new Uint8Array(align(110 + encoded.length));
  out.set(new TextEncoder().encode(`070701${hex}`));
  out.set(encoded, 110);
  return out;
}

const align = (size: number) => (size + 3) & ~3;

/**
 * Modules the root file system needs, modules that may load while it is mounted, the driver of the console
 * that a Mac's machines have, and what runs programs of another architecture (groups of `init.ts`).
 */
const MODULE_GROUPS = [
  ["virtio_pci", "virtio_blk", "erofs", "overlay"],
  ["vmw_vsock_virtio_transport", "virtiofs"],
  ["virtio_console"],
  ["binfmt_misc"],
];

/** Mount points of `init.ts`. */
const MOUNT_POINTS = [
  "before",
  "dev",
  "disk",
  "lower",
  "new",
  "proc",
  "sys",
  "upper",
  "usr",
  "usr/lib",
  "usr/lib/sbx",
];

/**
 * Builds the first root file system: busybox, `/init`, and its modules. Uncompressed, since unpacking would
 * take the kernel longer than reading takes QEMU.
 */
export async function buildInitrd(busybox: Uint8Array, modules: ModuleTree): Promise<Uint8Array> {
  const directory = (path: string): CpioEntry => ({ path, kind: "directory" });
  const program = (path: string, data: Uint8Array): CpioEntry => ({ path, kind: "file", data, mode: 0o755 });
  const loaded = new Set<string>();
  const files: CpioEntry[] = [];
  for (const [group, names] of MODULE_GROUPS.entries()) {
    const order = (await modules.loadOrder(names)).filter(({ name }) => !loaded.has(name));
    for (const [at, module] of order.entries()) {
      loaded.add(module.name);
      files.push({ path: `modules/${fileName(group + 1, at, module)}`, kind: "file", data: module.bytes });
    }
  }
  return encodeCpio([
    ...["bin", ...MOUNT_POINTS, "modules"].map(directory),
    // Nodes /init needs before devtmpfs is mounted, and again after it moves under the new root: the shell
    // opens /dev/null for every background job.
    { path: "dev/console", kind: "character", major: 5, minor: 1 },
    { path: "dev/null", kind: "character", major: 1, minor: 3, mode: 0o666 },
    program("bin/busybox", busybox),
    program(MODPROBE_PATH.slice(1), new TextEncoder().encode(MODPROBE)),
    program("init", new TextEncoder().encode(INIT)),
    ...files,
  ]);
}

function fileName(group: number, at: number, { name }: KernelModule): string {
  return `${group}${`${at}`.padStart(2, "0")}-${name}.ko`;
}
