/**
 * The files of an image, made of its layers in memory: nothing of a layer is ever a path of the host, so that
 * no name or link in it can lead anywhere.
 */
import { pathOf, refuseLayer, shown, type TarEntry } from "./tar.ts";

/** Most files and folders of an image. */
export const ENTRIES_MAX = 1_000_000;
/** Most entries of all layers together: later ones may replace, hide or repeat earlier ones. */
const LAYERS_ENTRIES_MAX = 4 * ENTRIES_MAX;
/**
 * Most `bytes` of the paths, link targets and attributes of all entries, which are in memory until the end.
 */
const NAMES_MAX = 256 * 1024 ** 2;
/** Most links in one path, as in Linux. */
const LINKS_MAX = 40;
/** Most `bytes` of all attributes of one file. */
const XATTRS_MAX = 64 * 1024;
/** Longest name of an attribute, as in Linux. */
const XATTR_NAME_MAX = 255;
/**
 * Beginning of the name of a file that hides another of the layers below, and the one that
 * hides a folder's whole content.
 */
const WHITEOUT = ".wh.", OPAQUE = ".wh..wh..opq";

/** A file, which may have several names. Texts have a character for each byte. */
export interface Node {
  kind: "file" | "folder" | "symlink" | "fifo";
  mode: number;
  uid: number;
  gid: number;
  mtime: number;
  mtimeNs: number;
  xattrs: Map<string, Uint8Array>;
  /** content in `bytes` */
  size: number;
  /** target of a symbolic link */
  link: string;
  /** content of a folder */
  children: Map<string, Child>;
  /** the layer that hid what layers below had in this folder */
  hiddenBy?: number;
}

/** One name of a file, and the layer that gave it: a hard link may name a file of a layer below. */
export interface Child {
  node: Node;
  layer: number;
}

/**
 * Attributes that a file keeps: trusted ones are the kernel's notes about
 * overlays, and would change this one.
 */
const KEPT_XATTR = /^(user\..|security\..|system\.posix_acl_(access|default)$)/s;

/** The files of an image. */
export class Tree {
  readonly root: Node = folder();
  #count = 0;
  #entries = 0;
  #names = 0;
  readonly #namesMax: number;

  constructor(namesMax = NAMES_MAX) {
    this.#namesMax = namesMax;
  }

  /**
   * Adds an entry of a layer, in the order of the layers.
   *
   * @returns the new file, unless the entry is a further name of one, or hides one
   * @throws {SbxError} `environment.layer.invalid`
   */
  add(entry: TarEntry, layer: number): Node | undefined {
    const { path } = entry;
    this.#require(entry);
    const name = path.at(-1);
    if (name === undefined) {
      if (entry.kind === "folder") Object.assign(this.root, facts(entry));
      return undefined;
    }
    // The guest's kernel fills /dev.
    if (entry.kind === "device" && path[0] === "dev") return undefined;
    if (entry.kind === "device") refuseLayer(`${shown(path)} is a device`);
    const parent = this.#folderAt(path.slice(0, -1), layer);
    if (name.startsWith(WHITEOUT)) {
      if (name === OPAQUE) hideContent(parent, layer);
      else hide(parent, name.slice(WHITEOUT.length), layer);
      return undefined;
    }
    const before = parent.children.get(name);
    if (entry.kind === "folder" && before?.node.kind === "folder") {
      Object.assign(before.node, facts(entry));
      before.layer = layer;
      return before.node;
    }
    const node = entry.kind === "hardlink" ? this.#target(entry) : nodeOf(entry);
    this.#put(parent, name, { node, layer });
    return entry.kind === "hardlink" ? undefined : node;
  }

  #require({ path, link, xattrs }: TarEntry): void {
    if (++this.#entries > LAYERS_ENTRIES_MAX) {
      refuseLayer(`its layers have more than ${LAYERS_ENTRIES_MAX} entries`);
    }
    this.#names += path.reduce((sum, name) => sum + name.length + 1, link.length) + bytesOf(xattrs);
    if (this.#names > this.#namesMax) {
      refuseLayer(`the names, links and attributes of its files have more than ${this.#namesMax} bytes`);
    }
  }

  #put(parent: Node, name: string, child: Child): void {
    if (++this.#count > ENTRIES_MAX) refuseLayer(`it has more than ${ENTRIES_MAX} files`);
    parent.children.set(name, child);
  }

  /** The file that a hard link names. */
  #target({ link, path }: TarEntry): Node {
    const names = link.split("/").filter((name) => name !== "" && name !== ".");
    if (names.includes("..")) {
      refuseLayer(`the link ${shown(path)} leads out of the image, to ${shown(link)}`);
    }
    const parent = this.#walk(names.slice(0, -1));
    const node = parent?.children.get(names.at(-1) ?? "")?.node;
    if (!node || node.kind === "folder") {
      refuseLayer(`${shown(path)} is a link to ${shown(link)}, which is not a file`);
    }
    return node;
  }

  /** The folder at a path; missing ones are made, as for `tar`. */
  #folderAt(path: string[], layer: number): Node {
    const found = this.#walk(path, layer);
    return found ?? refuseLayer(`${shown(path)} is not a folder`);
  }

  /**
   * Follows a path from the root, symbolic links included; `..` of a link ends at the root.
   *
   * @param make number of the layer for which missing folders are made; absent: none are
   * @returns undefined: the path leads to no folder
   */
  #walk(path: string[], make?: number): Node | undefined {
    const trail = [this.root];
    const left = [...path].reverse();
    let links = 0;
    for (let name = left.pop(); name !== undefined; name = left.pop()) {
      if (name === "" || name === ".") continue;
      if (name === "..") {
        if (trail.length > 1) trail.pop();
        continue;
      }
      const parent = trail.at(-1)!;
      let child = parent.children.get(name)?.node;
      if (child?.kind === "symlink") {
        if (++links > LINKS_MAX) refuseLayer(`${shown(path)} has more than ${LINKS_MAX} links`);
        if (child.link.startsWith("/")) trail.length = 1;
        left.push(...child.link.split("/").reverse());
        continue;
      }
      if (child?.kind !== "folder") {
        if (make === undefined) return undefined;
        child = folder();
        this.#put(parent, name, { node: child, layer: make });
      }
      trail.push(child);
    }
    return trail.at(-1);
  }

  /**
   * Makes a folder, unless it is there.
   * @throws {SbxError} `environment.layer.invalid`: a file is in its place
   */
  ensureFolder(path: string): void {
    const names = pathOf(path);
    for (let length = 1; length <= names.length; length++) {
      const part = names.slice(0, length);
      const kind = this.find(part.join("/"))?.kind;
      if (kind === "file" || kind === "fifo") {
        refuseLayer(`its working folder ${shown(names)} leads through ${shown(part)}, which is a file`);
      }
    }
    this.#folderAt(names, Infinity);
  }

  /** Every file once, whatever the number of its names. */
  nodes(): Set<Node> {
    const seen = new Set<Node>([this.root]);
    for (const node of seen) for (const { node: child } of node.children.values()) seen.add(child);
    return seen;
  }

  /** The file at a path; symbolic links are followed. */
  find(path: string): Node | undefined {
    const names = path.split("/");
    let parent = this.#walk(names.slice(0, -1));
    let node = parent?.children.get(names.at(-1)!)?.node;
    for (let links = 0; node?.kind === "symlink" && links < LINKS_MAX; links++) {
      const target = node.link.split("/");
      const base = node.link.startsWith("/") ? [] : names.slice(0, -1);
      parent = this.#walk([...base, ...target.slice(0, -1)]);
      node = parent?.children.get(target.at(-1)!)?.node;
    }
    return node;
  }
}

/** Hides a name of the layers below. A folder that this layer has too keeps this layer's content. */
function hide(parent: Node, name: string, layer: number): void {
  const child = parent.children.get(name);
  if (!child) return;
  if (child.layer < layer) parent.children.delete(name);
  else hideContent(child.node, layer);
}

/** Hides the content that the layers below gave a folder, which may be nested deeper than a stack. */
function hideContent(folder: Node, layer: number): void {
  const left = [folder];
  for (let node = left.pop(); node; node = left.pop()) {
    // The rest is of this layer.
    if (node.hiddenBy === layer) continue;
    node.hiddenBy = layer;
    for (const [name, child] of node.children) {
      if (child.layer < layer) node.children.delete(name);
      else if (child.node.kind === "folder") left.push(child.node);
    }
  }
}

function folder(): Node {
  return {
    ...{ kind: "folder", mode: 0o755, uid: 0, gid: 0, mtime: 0, mtimeNs: 0 },
    ...{ xattrs: new Map(), size: 0, link: "", children: new Map() },
  };
}

function nodeOf(entry: TarEntry): Node {
  const { kind, size, link } = entry;
  if (kind === "hardlink" || kind === "device") throw new TypeError(`${kind} is not a file of its own`);
  return { kind, size, link, children: new Map(), ...facts(entry) };
}

function facts({ mode, uid, gid, mtime, mtimeNs, xattrs, path }: TarEntry) {
  const kept = new Map([...xattrs].filter(([name]) => KEPT_XATTR.test(name)));
  const long = [...kept.keys()].find((name) => name.length > XATTR_NAME_MAX);
  if (long) refuseLayer(`${shown(path)} has an attribute whose name is longer than Linux allows`);
  const bytes = bytesOf(kept);
  if (bytes > XATTRS_MAX) {
    refuseLayer(`${shown(path)} has ${bytes} bytes of attributes, more than ${XATTRS_MAX}`);
  }
  return { mode, uid, gid, mtime, mtimeNs, xattrs: kept };
}

function bytesOf(xattrs: Map<string, Uint8Array>): number {
  return [...xattrs].reduce((sum, [name, value]) => sum + name.length + value.length, 0);
}
