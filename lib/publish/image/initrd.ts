import { type CpioEntry, encodeCpio } from "./cpio.ts";
import { INIT } from "./init.ts";
import type { KernelModule, ModuleTree } from "./module.ts";

/**
 * Modules the root file system needs, modules that may load while it is mounted, the driver of the console that a Mac's
 * machines have, and what runs programs of another architecture (groups of `init.ts`).
 */
const MODULE_GROUPS = [
  ["virtio_pci", "virtio_blk", "erofs", "overlay"],
  ["vmw_vsock_virtio_transport", "virtiofs"],
  ["virtio_console"],
  ["binfmt_misc"],
];

/** Mount points of `init.ts`. */
const MOUNT_POINTS = ["dev", "disk", "lower", "new", "proc", "sys", "upper"];

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
    program("init", new TextEncoder().encode(INIT)),
    ...files,
  ]);
}

function fileName(group: number, at: number, { name }: KernelModule): string {
  return `${group}${`${at}`.padStart(2, "0")}-${name}.ko`;
}
