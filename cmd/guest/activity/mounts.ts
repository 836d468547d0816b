/**
 * Mounts of the guest's processes, the file systems whose files are reported and held, and names of open
 * files by whichever mount.
 */
import { GUEST_WORKSPACE, type NamedPaths } from "../../../lib/event/mod.ts";
import { type Mount, mountsOf } from "../../../lib/machine/guest/mounts/mod.ts";
import { holdMount, identityOf, mountOf } from "../../../ffi/libc/inode.ts";

/** The rest of a path below a folder, with its slash; empty for the folder; undefined for paths elsewhere. */
export function below(path: string, folder: string): string | undefined {
  if (folder === "/") return path === "/" ? "" : path;
  if (path === folder) return "";
  return path.startsWith(`${folder}/`) ? path.slice(folder.length) : undefined;
}

/** A path below a folder, the inverse of {@linkcode below}; `/` is the folder as well. */
export function joined(folder: string, rest: string): string {
  if (folder === "/") return rest || "/";
  return rest === "/" ? folder : folder + rest;
}

/** File systems whose files are always reported and held. */
const ALWAYS = ["/", GUEST_WORKSPACE];

/** Mounts in every namespace of the guest, and the path by which this program reaches each. */
export function* mountsOfAll(): Iterable<{ mount: Mount; path: string }> {
  const namespaces = new Set<string>();
  for (const process of ["self", ...processes()]) {
    try {
      const namespace = Deno.readLinkSync(`/proc/${process}/ns/mnt`);
      if (namespaces.has(namespace)) continue;
      const mounts = mountsOf(Deno.readTextFileSync(`/proc/${process}/mountinfo`));
      namespaces.add(namespace);
      const root = process === "self" ? "" : `/proc/${process}/root`;
      for (const mount of mounts) yield { mount, path: root + mount.point };
    } catch {
      // It has ended.
    }
  }
}

function* processes(): Iterable<string> {
  for (const { name } of Deno.readDirSync("/proc")) if (/^\d+$/.test(name)) yield name;
}

/** Mount points of the file systems whose files are reported and held: workspace, root, and the profile's. */
export function watchedMounts(named: NamedPaths): Set<string> {
  const mounts = mountsOf(Deno.readTextFileSync("/proc/self/mountinfo")).map(({ point }) => point);
  const watched = new Set(ALWAYS);
  for (const path in named) {
    const around = mounts.filter((mount) =>
      path === mount || path.startsWith(mount === "/" ? "/" : `${mount}/`)
    );
    watched.add(around.reduce((longest, mount) => mount.length > longest.length ? mount : longest, "/"));
  }
  return watched;
}

/** Root file system of init, whose mounts lie under the guest's own (lib/publish/image/init.ts). */
const INIT_ROOT = "/proc/1/root";
/** Folder of the files on the disk of an overlay. */
const UPPER_DATA = "/data";
/** Ending that the kernel adds to the path of a deleted file. */
const DELETED = " (deleted)";

/** A file system with files that rules name, at its first mount. */
interface Place {
  /** folder by which this program reaches it */
  folder: string;
  /** open, so that its mount keeps its number */
  fd: number;
  mount: Mount;
  /**
   * It is a layer of the root's overlay. The kernel asks about its files each time the overlay opens them, by
   * a mount that is in no list: so only the mounts of the lists are watched.
   */
  isLayer: boolean;
  /** path of a file in the guest, by its path below the folder */
  nameOf(path: string): string;
}

/** Name of an open file; hidden: it matches one of the rules' names, but which one is unknown. */
interface FileName {
  path: string;
  hidden?: true;
}

/**
 * Names of open files, by whichever mount they were opened. Rules name a file by its path in the guest's
 * first mounts; the same file has other paths in a bind mount, a second mount of its device, a mount
 * namespace, or below an overlay.
 */
export class Places {
  readonly #places: Place[] = [];

  /** Finds the file systems of every guest, before a program of it runs; known ones stay unchanged. */
  find(): void {
    this.add("/");
    this.add(GUEST_WORKSPACE);
    this.#add(`${INIT_ROOT}/lower`, (path) => path, true);
    for (const disk of ["/upper", "/disk"]) {
      // Beside the data are the kernel's own files, such as its temporary copies of the image's files.
      this.#add(INIT_ROOT + disk, (path) => below(path, UPPER_DATA) ?? disk + path, true);
    }
  }

  /** Adds the file system that is mounted at a path. */
  add(path: string): void {
    const prefix = path === "/" ? "" : path;
    this.#add(path, (rest) => prefix + rest);
  }

  /** Folders of the file systems that the root's overlay is made of. */
  get layers(): string[] {
    return this.#places.filter(({ isLayer }) => isLayer).map(({ folder }) => folder);
  }

  /** True for a mount of a file system that the root's overlay is made of. */
  isOfLayer({ device }: Mount): boolean {
    return this.#places.some(({ mount, isLayer }) => isLayer && mount.device === device);
  }

  /**
   * True for an overlay that programs of the guest have made: it may show files of these under other names.
   */
  hides({ type, device }: Mount): boolean {
    return type === "overlay" && !this.#places.some(({ mount }) => mount.device === device);
  }

  /** Name of a file that a thread has opened by a descriptor of this program. */
  nameOf(thread: number, fd: number): FileName {
    const opened = readName(fd);
    const id = mountOf(fd);
    const first = this.#places.find(({ mount }) => mount.id === id);
    if (first) return named(opened, first, below(opened, readName(first.fd)));
    const mount = id === undefined ? undefined : mountBy(id, thread);
    if (!mount) return { path: opened, hidden: true };
    const place = this.#places.find(({ mount: { device } }) => mount.device === device);
    if (!place) return { path: opened, ...this.hides(mount) && { hidden: true } };
    const rest = below(opened, mount.point);
    const path = rest === undefined ? undefined : below(joined(mount.root, rest), place.mount.root);
    // A mount may have moved, or another one may cover the place.
    const isSame = path !== undefined && identityOf(place.folder + path) === identityOf(fd);
    return named(opened, place, isSame ? path : undefined);
  }

  #add(folder: string, nameOf: Place["nameOf"], isLayer = false): void {
    if (this.#places.some((place) => place.folder === folder)) return;
    const id = mountOf(folder);
    const mount = id === undefined ? undefined : mountBy(id, 1);
    if (!mount || this.#places.some((place) => place.mount.id === id)) return;
    this.#places.push({ folder, fd: holdMount(folder), mount, isLayer, nameOf });
  }
}

function named(opened: string, place: Place, path: string | undefined): FileName {
  return path === undefined ? { path: opened, hidden: true } : { path: place.nameOf(path) || "/" };
}

/** Path of an open file in its mounts. */
function readName(fd: number): string {
  const name = Deno.readLinkSync(`/proc/self/fd/${fd}`);
  // A program may open a file it has deleted, by a descriptor that it has kept.
  return name.endsWith(DELETED) ? name.slice(0, -DELETED.length) : name;
}

/** A mount of a thread, of this program or of init, as this program sees it. */
function mountBy(id: number, thread: number): Mount | undefined {
  for (const process of [thread, "self", 1]) {
    try {
      const found = mountsOf(Deno.readTextFileSync(`/proc/${process}/mountinfo`)).find((mount) =>
        mount.id === id
      );
      if (!found) continue;
      const root = Deno.readLinkSync(`/proc/${process}/root`);
      return { ...found, point: joined(root, found.point) };
    } catch {
      // It has ended.
    }
  }
}
