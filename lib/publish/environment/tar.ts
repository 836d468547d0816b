/**
 * Entries of a layer's tar archive, read in one pass from untrusted bytes.
 *
 * Names, link targets and attributes are bytes to Linux, and are kept as such: as texts with a character for
 * each byte. The packages that were looked at read names or attributes as UTF-8, which destroys capabilities.
 */
import { Buffer } from "node:buffer";
import { SbxError } from "../../base/error/mod.ts";

/** Size of a header, and of the unit that contents are padded to, in `bytes`. */
const BLOCK = 512;
/** Most `bytes` of one extended header: attributes of a file, and long names. */
const EXTENDED_MAX = 1024 * 1024;
/** Longest path, and longest name in it, in `bytes`: Linux's own limits. */
const PATH_MAX = 4096, NAME_MAX = 255;
/** Largest number of a user or group: the one above stands for none. */
const ID_MAX = 2 ** 32 - 2;
/** Latest time of a change, in `s`: the last one that file systems with 34 bits for it have. */
const MTIME_MAX = 2 ** 34 - 1;
/** Prefix of extended attributes among the records of an extended header. */
const XATTR = "SCHILY.xattr.";

export type TarKind = "file" | "hardlink" | "symlink" | "folder" | "fifo" | "device";

/** One entry of an archive. Texts have a character for each byte. */
export interface TarEntry {
  kind: TarKind;
  /** names of the path, without empty ones and `.` */
  path: string[];
  /** target of a link */
  link: string;
  /** permissions, with set-id and sticky bits */
  mode: number;
  uid: number;
  gid: number;
  /** time of the last change, in whole `s`, and the rest in `ns` */
  mtime: number;
  mtimeNs: number;
  /** content in `bytes` */
  size: number;
  xattrs: Map<string, Uint8Array>;
}

const KINDS: Record<string, TarKind> = {
  "0": "file",
  "\0": "file",
  "7": "file",
  "1": "hardlink",
  "2": "symlink",
  "3": "device",
  "4": "device",
  "5": "folder",
  "6": "fifo",
};

/** @throws always, `environment.layer.invalid` */
export function refuseLayer(reason: string, cause?: unknown): never {
  throw new SbxError("environment.layer.invalid", `the image was refused: ${reason}`, {
    cause,
    hint: "take an image from a publisher that you trust, or make it again with a current tool",
  });
}

/** Shows a path with a character for each byte to a person. */
export function shown(path: string | string[]): string {
  const text = typeof path === "string" ? path : path.join("/");
  return JSON.stringify(Buffer.from(text.slice(0, 200), "latin1").toString());
}

/** Bytes that come in pieces of any size. */
class Source {
  readonly #pieces: AsyncIterator<Uint8Array>;
  #rest: Uint8Array = new Uint8Array();

  constructor(pieces: AsyncIterable<Uint8Array>) {
    this.#pieces = pieces[Symbol.asyncIterator]();
  }

  async close(): Promise<void> {
    await this.#pieces.return?.();
  }

  /** The next bytes, at most `max`; undefined at the end. */
  async some(max: number): Promise<Uint8Array | undefined> {
    while (this.#rest.length === 0) {
      const { value, done } = await this.#pieces.next();
      if (done) return undefined;
      this.#rest = value;
    }
    const piece = this.#rest.subarray(0, max);
    this.#rest = this.#rest.subarray(piece.length);
    return piece;
  }

  /** Exactly `size` bytes; undefined where the source ends before the first. */
  async exactly(size: number): Promise<Uint8Array | undefined> {
    if (this.#rest.length >= size) {
      const piece = this.#rest.subarray(0, size);
      this.#rest = this.#rest.subarray(size);
      return piece;
    }
    const whole = new Uint8Array(size);
    for (let at = 0; at < size;) {
      const piece = await this.some(size - at);
      if (!piece && at === 0) return undefined;
      if (!piece) refuseLayer("a layer ends in the middle of an entry");
      whole.set(piece, at);
      at += piece.length;
    }
    return whole;
  }
}

/**
 * Reads the entries of an archive. The content of an entry is read with `content()` before the
 * next entry is taken, or skipped.
 *
 * @throws {SbxError} `environment.layer.invalid`
 */
export async function* readTar(
  pieces: AsyncIterable<Uint8Array>,
): AsyncGenerator<{ entry: TarEntry; content(): AsyncGenerator<Uint8Array> }> {
  const source = new Source(pieces);
  try {
    let extended = new Map<string, Uint8Array>();
    let extendedBytes = 0;
    for (let header = await source.exactly(BLOCK); header; header = await source.exactly(BLOCK)) {
      if (header.every((byte) => byte === 0)) break;
      requireSum(header);
      const type = String.fromCharCode(header[156]);
      if ("xgLK".includes(type)) {
        const size = numberOf(header, 124, 12);
        const records = await readExtended(source, type, size);
        // As Docker does: an attribute for every file would be a copy of it for each.
        if (type === "g") continue;
        extendedBytes += size;
        if (extendedBytes > EXTENDED_MAX) {
          refuseLayer(`extended headers of one file have more than ${EXTENDED_MAX} bytes`);
        }
        for (const [key, value] of records) extended.set(key, value);
        continue;
      }
      const entry = entryOf(header, type, extended);
      extended = new Map();
      extendedBytes = 0;
      let left = entry.size;
      const content = async function* () {
        while (left > 0) {
          const piece = await source.some(left);
          if (!piece) refuseLayer(`a layer ends inside ${shown(entry.path)}`);
          left -= piece.length;
          yield piece;
        }
      };
      yield { entry, content };
      for await (const _ of content());
      const padding = -entry.size & (BLOCK - 1);
      if (padding > 0 && !await source.exactly(padding)) {
        refuseLayer("a layer ends in the middle of an entry");
      }
    }
    // Ends the decompression, whose checksum comes last.
    while (await source.some(Infinity));
  } finally {
    // After an error too: a tool that unpacks would wait for a reader for ever.
    await source.close();
  }
}

async function readExtended(source: Source, type: string, size: number): Promise<Map<string, Uint8Array>> {
  if (!(size >= 0 && size <= EXTENDED_MAX)) {
    refuseLayer(`an extended header has ${size} bytes, more than ${EXTENDED_MAX}`);
  }
  const bytes = await source.exactly(size + (-size & (BLOCK - 1)));
  if (!bytes) refuseLayer("a layer ends in an extended header");
  const content = bytes.slice(0, size);
  if (type === "L" || type === "K") {
    const end = content.indexOf(0);
    return new Map([[type === "L" ? "path" : "linkpath", end < 0 ? content : content.subarray(0, end)]]);
  }
  const records = new Map<string, Uint8Array>();
  for (let at = 0; at < size;) {
    const space = content.indexOf(0x20, at);
    const length = space < 0 ? NaN : Number(latin1(content.subarray(at, space)));
    const equals = content.indexOf(0x3d, space);
    if (!(length > space - at + 1) || at + length > size || equals < 0 || equals >= at + length) {
      refuseLayer("an extended header is damaged");
    }
    const value = content.subarray(equals + 1, at + length - 1);
    const key = latin1(content.subarray(space + 1, equals));
    // An empty value stands for the one of the header that follows.
    if (value.length > 0 || key.startsWith(XATTR)) records.set(key, value);
    at += length;
  }
  return records;
}

function entryOf(header: Uint8Array, type: string, extended: Map<string, Uint8Array>): TarEntry {
  const text = (key: string) => {
    const bytes = extended.get(key);
    return bytes && latin1(bytes);
  };
  const isUstar = latin1(header.subarray(257, 263)) === "ustar\0";
  const prefix = isUstar ? textOf(header, 345, 155) : "";
  const name = text("path") ?? (prefix ? `${prefix}/` : "") + textOf(header, 0, 100);
  if (type === "S" || [...extended.keys()].some((key) => key.startsWith("GNU.sparse."))) {
    refuseLayer(`${shown(name)} is a sparse file, which no layer needs`);
  }
  // Before POSIX, a folder was a file whose name ends with a slash.
  const kind = (type === "0" || type === "\0") && name.endsWith("/") ? "folder" : KINDS[type];
  if (!kind) refuseLayer(`${shown(name)} has the unknown type ${JSON.stringify(type)}`);
  const number = (key: string, at: number, length: number) => {
    const given = text(key);
    const value = given === undefined
      ? numberOf(header, at, length)
      : /^\d+$/.test(given)
      ? Number(given)
      : NaN;
    const max = key === "size" ? Number.MAX_SAFE_INTEGER : ID_MAX;
    if (!Number.isSafeInteger(value) || value < 0 || value > max) {
      refuseLayer(`${shown(name)} has no valid ${key}`);
    }
    return value;
  };
  const size = number("size", 124, 12);
  const [, seconds = "0", fraction = ""] = /^(-?\d+)(?:\.(\d+))?$/.exec(text("mtime") ?? "") ??
    ["", String(numberOf(header, 136, 12))];
  const xattrs = [...extended].filter(([key]) => key.startsWith(XATTR))
    .map(([key, value]): [string, Uint8Array] => [key.slice(XATTR.length), value]);
  return {
    kind,
    path: pathOf(name),
    link: kind === "symlink" || kind === "hardlink"
      ? linkOf(name, text("linkpath") ?? textOf(header, 157, 100))
      : "",
    mode: numberOf(header, 100, 8) & 0o7777,
    uid: number("uid", 108, 8),
    gid: number("gid", 116, 8),
    mtime: Math.min(MTIME_MAX, Math.max(0, Number(seconds))) || 0,
    mtimeNs: Number(fraction.slice(0, 9).padEnd(9, "0")),
    size: kind === "file" ? size : 0,
    xattrs: new Map(xattrs),
  };
}

/**
 * Names of a path below the root.
 * @throws {SbxError} `environment.layer.invalid`: it leaves the root, or is too long
 */
export function pathOf(path: string): string[] {
  const names = path.split("/").filter((name) => name !== "" && name !== ".");
  if (names.includes("..")) refuseLayer(`the path ${shown(path)} leads out of the image`);
  if (path.includes("\0") || path.length > PATH_MAX || names.some((name) => name.length > NAME_MAX)) {
    refuseLayer(`the path ${shown(path)} is longer than Linux allows`);
  }
  return names;
}

function linkOf(name: string, link: string): string {
  if (link !== "" && link.length < PATH_MAX && !link.includes("\0")) return link;
  return refuseLayer(`the link ${shown(name)} has no target, or one that is longer than Linux allows`);
}

function requireSum(header: Uint8Array): void {
  const stated = numberOf(header, 148, 8);
  let sum = 8 * 0x20;
  for (let at = 0; at < BLOCK; at++) if (at < 148 || at >= 156) sum += header[at];
  if (sum !== stated) refuseLayer("a layer is not a tar archive, or is damaged");
}

/** Number in octal digits, or in base 256 with the highest bit set. */
function numberOf(header: Uint8Array, at: number, length: number): number {
  const field = header.subarray(at, at + length);
  if (field[0] === 0xff) return -1;
  if (field[0] & 0x80) {
    return field.reduce((value, byte, index) => value * 256 + (index === 0 ? byte & 0x7f : byte), 0);
  }
  const digits = textOf(header, at, length).trim();
  return digits === "" ? 0 : /^[0-7]+$/.test(digits) ? parseInt(digits, 8) : NaN;
}

function textOf(header: Uint8Array, at: number, length: number): string {
  const field = header.subarray(at, at + length);
  const end = field.indexOf(0);
  return latin1(end < 0 ? field : field.subarray(0, end));
}

function latin1(bytes: Uint8Array): string {
  return Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength).toString("latin1");
}
