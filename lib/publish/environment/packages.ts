/**
 * Packages of an image, read from the databases of its package managers while its files are written. Scanners
 * made for this (syft, trivy, cdxgen) are in neither Debian nor npm, or bring a package manager of their own.
 */
import { Buffer } from "node:buffer";
import { join } from "node:path";
import { installedPackages } from "../image/mod.ts";
import { type FoundPackage, readRpmDatabase } from "./rpm.ts";
import type { Node, Tree } from "./tree.ts";

/** Most `bytes` of a database, and of a package's description, that are read. */
const DATABASE_MAX = 64 * 1024 ** 2, DESCRIPTION_MAX = 1024 ** 2;
/**
 * Most packages of an image; longest name, version, architecture or license of
 * one, and of all, in characters.
 */
const PACKAGES_MAX = 100_000, TEXT_MAX = 1024, TEXTS_MAX = 8 * 1024 ** 2;
/** Most `bytes` of a Go program's list of modules. */
const GO_INFO_MAX = 1024 ** 2;
/** Begin of that list in a program (debug/buildinfo of Go). */
const GO_MAGIC = Buffer.from("\xff Go buildinf:", "latin1");
/** Flag of a list whose texts follow it, as in every Go since 1.18, and where they begin. */
const GO_INLINE = 2, GO_TEXTS_AT = 32;
/** Marks around the modules of a Go program. */
const GO_MARK = 16;

/** Release of an image's distribution, by its os-release. */
export interface Distribution {
  id?: string;
  version?: string;
}

/** Most paths of databases that cannot be read. */
const UNREAD_MAX = 100;

type Parser = (bytes: Uint8Array) => FoundPackage[];

const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

/** Finds the databases among an image's files, and keeps what they list. */
export class PackageFinder {
  readonly #dir: string;
  readonly #found = new Map<Node, FoundPackage[]>();
  readonly #osRelease = new Map<Node, Uint8Array>();
  /** databases whose packages are missing, by their paths */
  readonly #unread = new Map<Node, string>();
  #count = 0;
  #characters = 0;

  /** @param dir folder for a database while it is read */
  constructor(dir: string) {
    this.#dir = dir;
  }

  /** Watches a file that may list packages. It is read at its end, so that few are in memory at once. */
  watch(node: Node, path: string[]): ((piece: Uint8Array) => void) | undefined {
    const text = path.join("/");
    const whole = (then: (bytes: Uint8Array) => void) => {
      const pieces: Uint8Array[] = [];
      return atEnd(node, (piece) => pieces.push(piece.slice()), () => then(Buffer.concat(pieces)));
    };
    if (/^(usr\/lib|etc)\/os-release$/.test(text) && node.size <= DESCRIPTION_MAX) {
      return whole((bytes) => this.#osRelease.set(node, bytes));
    }
    const isRpm = RPM_DATABASES.includes(text);
    const [parse, max] = isRpm
      ? [(bytes: Uint8Array) => readRpmDatabase(bytes, join(this.#dir, "rpmdb.sqlite")), DATABASE_MAX]
      : parserOf(text) ?? [];
    if (parse) {
      if (node.size > 0) this.#unread.set(node, text);
      return node.size <= max! ? whole((bytes) => this.#keep(node, text, parse(bytes))) : undefined;
    }
    if ((node.mode & 0o111) === 0) return undefined;
    const modules = new GoModules();
    return atEnd(node, (piece) => modules.push(piece), () => this.#keep(node, text, modules.packages()));
  }

  #keep(node: Node, path: string, packages: FoundPackage[] | undefined): void {
    this.#unread.set(node, path);
    const usable = packages?.filter((each) => textsOf(each).every(isUsable));
    if (!usable) return;
    const characters = usable.flatMap(textsOf).reduce((sum, { length }) => sum + length, 0);
    if (this.#count + usable.length > PACKAGES_MAX || this.#characters + characters > TEXTS_MAX) return;
    this.#unread.delete(node);
    if (usable.length === 0) return;
    this.#count += usable.length;
    this.#characters += characters;
    // A text cut out of a database would keep all of it in memory.
    this.#found.set(node, JSON.parse(JSON.stringify(usable)));
  }

  /** Packages of the files that the image has in the end, without duplicates. */
  packages(tree: Tree): FoundPackage[] {
    const nodes = tree.nodes();
    const all = [...this.#found].filter(([node]) => nodes.has(node)).flatMap(([, packages]) => packages);
    const byKey = new Map(
      all.map((each) => [`${each.type} ${each.name} ${each.version} ${each.arch}`, each]),
    );
    return [...byKey].sort(([a], [b]) => a < b ? -1 : 1).map(([, each]) => each);
  }

  distribution(tree: Tree): Distribution {
    const node = ["etc/os-release", "usr/lib/os-release"].map((path) => tree.find(path)).find((node) => node);
    const text = decode(node && this.#osRelease.get(node) || new Uint8Array());
    const field = (name: string) => new RegExp(`^${name}="?([^"\\n]*)"?$`, "m").exec(text)?.[1] || undefined;
    return { id: field("ID"), version: field("VERSION_CODENAME") ?? field("VERSION_ID") };
  }

  /** Paths of databases that were found and cannot be read, at most {@linkcode UNREAD_MAX}. */
  unread(tree: Tree): string[] {
    const nodes = tree.nodes();
    const paths = [...this.#unread].filter(([node]) => nodes.has(node)).map(([, path]) =>
      Buffer.from(path, "latin1").toString()
    );
    return paths.sort().slice(0, UNREAD_MAX);
  }
}

function textsOf({ name, version, arch = "", license = "" }: FoundPackage): string[] {
  return [name, version, arch, license];
}

/** A text that an OBOM can have: whole characters, and not a book of them. */
function isUsable(text: string): boolean {
  return text.length <= TEXT_MAX && text.isWellFormed();
}

/** Passes the pieces of a file on, and calls `end` after the last one. */
function atEnd(node: Node, push: (piece: Uint8Array) => void, end: () => void): (piece: Uint8Array) => void {
  let seen = 0;
  return (piece) => {
    push(piece);
    seen += piece.length;
    if (seen === node.size) end();
  };
}

/** rpm keeps its packages in a database of SQLite, of its own, or of Berkeley DB. */
const RPM_DATABASES = ["rpmdb.sqlite", "Packages.db", "Packages"].flatMap((name) =>
  ["var/lib/rpm", "usr/lib/sysimage/rpm", "usr/share/rpm"].map((dir) => `${dir}/${name}`)
);

/** The reader of a file, and the most `bytes` that it reads. */
function parserOf(path: string): [Parser, number] | undefined {
  if (/^var\/lib\/dpkg\/(status|status\.d\/[^/]+)$/.test(path) && !path.endsWith(".md5sums")) {
    return [dpkg, DATABASE_MAX];
  }
  if (/^(usr\/)?lib\/apk\/db\/installed$/.test(path)) return [apk, DATABASE_MAX];
  if (/(^|\/)node_modules\/(@[^/]+\/)?[^/]+\/package\.json$/.test(path)) return [npm, DESCRIPTION_MAX];
  if (/\.(dist|egg)-info\/(METADATA|PKG-INFO)$/.test(path)) return [python, DESCRIPTION_MAX];
  return undefined;
}

function dpkg(bytes: Uint8Array): FoundPackage[] {
  // Distroless images have a file for each package, without its state.
  const text = decode(bytes);
  const status = /^Status:/m.test(text)
    ? text
    : text.replace(/^Package:/m, "Status: install ok installed\n$&");
  return installedPackages(status).map(({ name, version, arch }) => ({ type: "deb", name, version, arch }));
}

function apk(bytes: Uint8Array): FoundPackage[] {
  return decode(bytes).split(/\n\n+/).flatMap((record) => {
    const field = (key: string) => new RegExp(`^${key}:(.+)$`, "m").exec(record)?.[1];
    const [name, version] = [field("P"), field("V")];
    return name && version ? [{ type: "apk", name, version, arch: field("A"), license: field("L") }] : [];
  });
}

function npm(bytes: Uint8Array): FoundPackage[] {
  let value: unknown;
  try {
    value = JSON.parse(decode(bytes));
  } catch {
    return [];
  }
  const { name, version, license } = (value ?? {}) as Record<string, unknown>;
  if (typeof name !== "string" || typeof version !== "string" || !/^(@[^/]+\/)?[^/]+$/.test(name)) return [];
  return [{ type: "npm", name, version, ...(typeof license === "string" && { license }) }];
}

function python(bytes: Uint8Array): FoundPackage[] {
  const head = decode(bytes).split(/\r?\n\r?\n/)[0];
  const field = (key: string) => new RegExp(`^${key}: *(.+?)\\r?$`, "mi").exec(head)?.[1];
  const [name, version] = [field("Name"), field("Version")];
  if (!name || !version) return [];
  const license = field("License-Expression");
  return [{
    type: "pypi",
    name: name.toLowerCase().replace(/[-_.]+/g, "-"),
    version,
    ...(license && { license }),
  }];
}

/** The modules that a Go program lists of itself. */
class GoModules {
  /** end of the last piece, or the begin of the list */
  #kept: Uint8Array = new Uint8Array();
  #isFound = false;

  push(piece: Uint8Array): void {
    if (this.#isFound) {
      if (this.#kept.length < GO_INFO_MAX) this.#kept = Buffer.concat([this.#kept, piece]);
      return;
    }
    const bytes = Buffer.concat([this.#kept, piece]);
    const at = bytes.indexOf(GO_MAGIC);
    this.#isFound = at >= 0;
    this.#kept = this.#isFound ? bytes.subarray(at) : bytes.subarray(-GO_MAGIC.length);
  }

  packages(): FoundPackage[] {
    if (!this.#isFound || (this.#kept[GO_MAGIC.length + 1] & GO_INLINE) === 0) return [];
    const version = this.#text(GO_TEXTS_AT);
    const modules = version && this.#text(version.end);
    if (!modules) return [];
    const lines = decode(modules.bytes.subarray(GO_MARK, -GO_MARK)).split("\n").map((line) =>
      line.split("\t")
    );
    const listed = lines.flatMap(([kind, name, version]): FoundPackage[] =>
      (kind === "dep" || kind === "mod") && name && version && version !== "(devel)"
        ? [{ type: "golang", name, version }]
        : []
    );
    return [
      { type: "golang", name: "stdlib", version: decode(version.bytes).replace(/^go/, "v") },
      ...listed,
    ];
  }

  /** A text after its length, in base 128. */
  #text(at: number): { bytes: Uint8Array; end: number } | undefined {
    let length = 0;
    for (let shift = 0; shift < 28; shift += 7) {
      const byte = this.#kept[at++];
      if (byte === undefined) return undefined;
      length |= (byte & 0x7f) << shift;
      if (byte < 0x80) break;
    }
    const bytes = this.#kept.subarray(at, at + length);
    return bytes.length === length ? { bytes, end: at + length } : undefined;
  }
}
