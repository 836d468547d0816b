/**
 * Writer of EROFS images without compression (Documentation/filesystems/erofs.rst of
 * Linux; `fs/erofs/erofs_fs.h`).
 *
 * mkfs.erofs packs a folder of the host, which needs root for its owners and lets a layer's names and
 * links loose on the host's file system; bookworm's cannot read a tar archive. This writes the same file
 * for every user, on every host.
 */
import { Buffer } from "node:buffer";
import { writeAll } from "../../base/wire/mod.ts";
import type { Node } from "./tree.ts";

/** Size of a block, in `bytes`, and its logarithm. */
const BLOCK = 4096, BLOCK_BITS = 12;
const MAGIC = 0xe0f5e1e2;
const SUPERBLOCK_AT = 1024;
/** `EROFS_FEATURE_COMPAT_MTIME`: times are times of the last change. */
const COMPAT_MTIME = 2;
/** Unit of a file's number, and size of an extended inode, in `bytes`. */
const SLOT = 32, INODE = 64;
/** Data of a file in blocks alone, or with the last part after its inode. */
const FLAT_PLAIN = 0, FLAT_INLINE = 2;
/** Size of a folder's entry without its name, in `bytes`. */
const DIRENT = 12;
/** Bytes written at once. */
const BUFFER = 4 * 1024 * 1024;

const TYPE_BITS: Record<Node["kind"], number> = {
  fifo: 0o010000,
  folder: 0o040000,
  file: 0o100000,
  symlink: 0o120000,
};
const DIRENT_TYPE: Record<Node["kind"], number> = { file: 1, folder: 2, fifo: 5, symlink: 7 };

/** Numbers of the prefixes of attributes, which are left out of their names. */
const XATTR_PREFIXES: [string, number][] = [
  ["user.", 1],
  ["system.posix_acl_access", 2],
  ["system.posix_acl_default", 3],
  ["trusted.", 4],
  ["security.", 6],
];

/** Where a file is in the image. */
interface Place {
  /** from the begin of the inodes, in `bytes` */
  at: number;
  layout: number;
  /** data after the inode */
  tail: number;
  xattrs: Uint8Array;
  nlink: number;
  /** folder around it; absent: it is the root */
  parent?: Node;
}

/** Writes an image: first the contents of files, in any order, then the rest. */
export class ErofsWriter {
  readonly #file: Deno.FsFile;
  /** first block of each file's content */
  readonly #blocks = new Map<Node, number>();
  readonly #buffer = new Uint8Array(BUFFER);
  #filled = 0;
  /** `bytes` written, with the ones in the buffer */
  #size = 0;

  /** @param file new and empty */
  constructor(file: Deno.FsFile) {
    this.#file = file;
  }

  /** Begins the image with an empty block, which {@linkcode finish} fills. */
  async begin(): Promise<void> {
    await this.#write(new Uint8Array(BLOCK));
  }

  /** Adds the content of a file. */
  async content(node: Node, pieces: AsyncIterable<Uint8Array>): Promise<void> {
    this.#blocks.set(node, this.#size / BLOCK);
    for await (const piece of pieces) await this.#write(piece);
    await this.#pad();
  }

  /**
   * Writes folders and inodes, and ends the image.
   *
   * @param nodes every file once, the root first
   */
  async finish(nodes: Iterable<Node>): Promise<void> {
    const { places, length } = placesOf(nodes);
    const meta = new Uint8Array(length + (-length & (BLOCK - 1)));
    for (const [node, { layout, tail, at }] of places) {
      if (node.kind !== "folder" && node.kind !== "symlink") continue;
      const data = node.kind === "folder" ? folderData(node, places) : bytesOf(node.link);
      const inBlocks = layout === FLAT_INLINE ? data.length - tail : data.length;
      if (inBlocks > 0) {
        this.#blocks.set(node, this.#size / BLOCK);
        await this.#write(data.subarray(0, inBlocks));
        await this.#pad();
      }
      const { xattrs } = places.get(node)!;
      meta.set(data.subarray(inBlocks), at + INODE + xattrs.length);
    }
    const view = new DataView(meta.buffer);
    let number = 0;
    for (const [node, place] of places) {
      writeInode(view, node, place, { number: ++number, block: this.#blocks.get(node) ?? 0 });
      meta.set(place.xattrs, place.at + INODE);
    }
    const metaBlock = this.#size / BLOCK;
    await this.#write(meta);
    await this.#flush();
    const root = places.values().next().value!;
    await this.#file.seek(SUPERBLOCK_AT, Deno.SeekMode.Start);
    await writeAll(
      this.#file,
      superblock({ root: root.at / SLOT, inodes: places.size, blocks: this.#size / BLOCK, metaBlock }),
    );
    await this.#file.sync();
  }

  async #write(bytes: Uint8Array): Promise<void> {
    this.#size += bytes.length;
    for (let at = 0; at < bytes.length;) {
      const piece = bytes.subarray(at, at + BUFFER - this.#filled);
      this.#buffer.set(piece, this.#filled);
      this.#filled += piece.length;
      at += piece.length;
      if (this.#filled === BUFFER) await this.#flush();
    }
  }

  async #pad(): Promise<void> {
    await this.#write(new Uint8Array(-this.#size & (BLOCK - 1)));
  }

  async #flush(): Promise<void> {
    await writeAll(this.#file, this.#buffer.subarray(0, this.#filled));
    this.#filled = 0;
  }
}

/** Gives every inode its place: no tail may cross the end of a block. */
function placesOf(nodes: Iterable<Node>): { places: Map<Node, Place>; length: number } {
  const places = new Map<Node, Place>();
  const names = new Map<Node, number>();
  const parents = new Map<Node, Node>();
  // The number 0 is no file's.
  let end = INODE;
  for (const node of nodes) {
    for (const { node: child } of node.children.values()) {
      names.set(child, (names.get(child) ?? 0) + 1);
      parents.set(child, node);
    }
    const xattrs = xattrData(node.xattrs);
    const size = sizeOf(node);
    const head = INODE + xattrs.length;
    const tail = node.kind === "folder" || node.kind === "symlink" ? size % BLOCK : 0;
    // Linux 6.1 takes a link that crosses a block, with its attributes, for damaged.
    const crosses = (at: number) =>
      (node.kind === "symlink" ? at % BLOCK + head : (at + head) % BLOCK) + tail > BLOCK;
    let at = end + (-end & (SLOT - 1));
    if (tail > 0 && crosses(at)) at = end + (-end & (BLOCK - 1));
    const isInline = tail > 0 && !crosses(at);
    places.set(node, {
      at,
      layout: isInline ? FLAT_INLINE : FLAT_PLAIN,
      tail,
      xattrs,
      nlink: 1,
      parent: parents.get(node),
    });
    end = at + head + (isInline ? tail : 0);
  }
  for (const [node, place] of places) {
    const folders = [...node.children.values()].filter(({ node: { kind } }) => kind === "folder").length;
    place.nlink = node.kind === "folder" ? 2 + folders : names.get(node) ?? 1;
  }
  // fsck.erofs 1.5 reads a head of attributes after every inode, also after the last one without any.
  return { places, length: end + XATTR_HEADER };
}

function sizeOf(node: Node): number {
  if (node.kind === "symlink") return node.link.length;
  if (node.kind !== "folder") return node.size;
  const blocks = foldersBlocks(node);
  const last = blocks.at(-1)!;
  return (blocks.length - 1) * BLOCK + last.reduce((sum, name) => sum + DIRENT + name.length, 0);
}

/** Names of a folder by the blocks that hold them, in the order of their bytes. */
function foldersBlocks({ children }: Node): string[][] {
  const names = [".", "..", ...children.keys()].sort((a, b) => a < b ? -1 : 1);
  const blocks: string[][] = [[]];
  let size = 0;
  for (const name of names) {
    if (size + DIRENT + name.length > BLOCK) {
      blocks.push([]);
      size = 0;
    }
    blocks.at(-1)!.push(name);
    size += DIRENT + name.length;
  }
  return blocks;
}

function folderData(node: Node, places: Map<Node, Place>): Uint8Array {
  const data = new Uint8Array(sizeOf(node));
  const view = new DataView(data.buffer);
  foldersBlocks(node).forEach((names, block) => {
    const begin = block * BLOCK;
    let nameAt = names.length * DIRENT;
    names.forEach((name, index) => {
      const child = name === "."
        ? node
        : name === ".."
        ? places.get(node)!.parent ?? node
        : node.children.get(name)!.node;
      const at = begin + index * DIRENT;
      view.setBigUint64(at, BigInt(places.get(child)!.at / SLOT), true);
      view.setUint16(at + 8, nameAt, true);
      view.setUint8(at + 10, DIRENT_TYPE[child.kind]);
      data.set(bytesOf(name), begin + nameAt);
      nameAt += name.length;
    });
  });
  return data;
}

function writeInode(
  view: DataView,
  node: Node,
  { at, layout, xattrs, nlink }: Place,
  { number, block }: { number: number; block: number },
): void {
  view.setUint16(at, 1 | layout << 1, true);
  view.setUint16(at + 2, xattrs.length > 0 ? (xattrs.length - XATTR_HEADER) / 4 + 1 : 0, true);
  view.setUint16(at + 4, TYPE_BITS[node.kind] | node.mode, true);
  view.setBigUint64(at + 8, BigInt(sizeOf(node)), true);
  view.setUint32(at + 16, block, true);
  view.setUint32(at + 20, number, true);
  view.setUint32(at + 24, node.uid, true);
  view.setUint32(at + 28, node.gid, true);
  view.setBigUint64(at + 32, BigInt(node.mtime), true);
  view.setUint32(at + 40, node.mtimeNs, true);
  view.setUint32(at + 44, nlink, true);
}

/** Size of the head of a file's attributes, in `bytes`. */
const XATTR_HEADER = 12;

function xattrData(xattrs: Node["xattrs"]): Uint8Array {
  const entries = [...xattrs].flatMap(([name, value]) => {
    const [prefix, index] = XATTR_PREFIXES.find(([prefix]) => name.startsWith(prefix)) ?? [];
    return prefix === undefined ? [] : [{ name: bytesOf(name.slice(prefix.length)), index: index!, value }];
  });
  if (entries.length === 0) return new Uint8Array();
  const sizes = entries.map(({ name, value }) => {
    const size = 4 + name.length + value.length;
    return size + (-size & 3);
  });
  const data = new Uint8Array(XATTR_HEADER + sizes.reduce((sum, size) => sum + size, 0));
  const view = new DataView(data.buffer);
  let at = XATTR_HEADER;
  entries.forEach(({ name, index, value }, number) => {
    view.setUint8(at, name.length);
    view.setUint8(at + 1, index);
    view.setUint16(at + 2, value.length, true);
    data.set(name, at + 4);
    data.set(value, at + 4 + name.length);
    at += sizes[number];
  });
  return data;
}

function superblock(
  { root, inodes, blocks, metaBlock }: { root: number; inodes: number; blocks: number; metaBlock: number },
): Uint8Array {
  const bytes = new Uint8Array(128);
  const view = new DataView(bytes.buffer);
  view.setUint32(0, MAGIC, true);
  view.setUint32(8, COMPAT_MTIME, true);
  view.setUint8(12, BLOCK_BITS);
  view.setUint16(14, root, true);
  view.setBigUint64(16, BigInt(inodes), true);
  view.setUint32(36, blocks, true);
  view.setUint32(40, metaBlock, true);
  // No UUID: one that all images share would let an overlay find its files again in another
  // image (lib/publish/image/init.ts).
  return bytes;
}

/** Bytes of a text with a character for each. */
function bytesOf(text: string): Uint8Array {
  return Buffer.from(text, "latin1");
}
