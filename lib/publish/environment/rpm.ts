/** Packages of rpm's database, as current distributions have it: headers in a table of SQLite. */
import { DatabaseSync } from "node:sqlite";

/** A package of an image. */
export interface FoundPackage {
  type: "deb" | "apk" | "rpm" | "npm" | "pypi" | "golang";
  name: string;
  version: string;
  arch?: string;
  /** as its database has it */
  license?: string;
}

/** Numbers of a header's fields (`rpmtag.h`), and of their types. */
const NAME = 1000, VERSION = 1001, RELEASE = 1002, EPOCH = 1003, LICENSE = 1014, ARCH = 1022;
const INT32 = 4, STRING = 6, I18N_STRING = 9;
/** Size of an entry of a header's index, and of the numbers before it, in `bytes`. */
const ENTRY = 16, INTRO = 8;

/** Place of the journal's kind in a database, and the kind that needs no second file. */
const JOURNAL_AT = 18, ROLLBACK = 1;
/** Most `bytes` of a package's header, and of all of them. */
const HEADER_MAX = 4 * 1024 ** 2, HEADERS_MAX = 256 * 1024 ** 2;
/** Most packages: a damaged tree of pages has rows without end. */
const ROWS_MAX = 100_000;

/**
 * Reads the packages of a database from an image, whose views, computed columns and damaged pages
 * could keep SQLite busy for ever.
 *
 * @param bytes the database; changed
 * @param path of a new file for the database, which is removed
 * @returns undefined: it cannot be read
 */
export function readRpmDatabase(bytes: Uint8Array, path: string): FoundPackage[] | undefined {
  // With a write-ahead log SQLite would leave two files beside it.
  bytes.subarray(JOURNAL_AT, JOURNAL_AT + 2).fill(ROLLBACK);
  Deno.writeFileSync(path, bytes, { mode: 0o600 });
  try {
    return rpmPackages(path);
  } finally {
    Deno.removeSync(path);
  }
}

/**
 * Reads the packages of a database.
 *
 * @returns undefined: it cannot be read
 */
export function rpmPackages(path: string): FoundPackage[] | undefined {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      if (!isPlainTable(database)) return undefined;
      const packages: FoundPackage[] = [];
      let [rows, bytes] = [0, 0];
      const all = database.prepare(
        `SELECT CASE WHEN length(blob) <= ${HEADER_MAX} THEN blob END AS blob FROM main.Packages`,
      ).iterate();
      for (const { blob } of all as Iterable<{ blob: unknown }>) {
        bytes += blob instanceof Uint8Array ? blob.length : 0;
        if (++rows > ROWS_MAX || bytes > HEADERS_MAX) return undefined;
        if (blob instanceof Uint8Array) packages.push(...packageOf(blob));
      }
      return packages;
    } finally {
      database.close();
    }
  } catch {
    return undefined;
  }
}

/** Tests for a table of stored values alone. */
function isPlainTable(database: DatabaseSync): boolean {
  const [table, more] = database.prepare("PRAGMA main.table_list(Packages)").all();
  const columns = database.prepare("PRAGMA main.table_xinfo(Packages)").all();
  return table?.type === "table" && more === undefined && columns.every(({ hidden }) => hidden === 0);
}

function packageOf(header: Uint8Array): FoundPackage[] {
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
  if (header.length < INTRO) return [];
  const count = view.getUint32(0);
  const store = INTRO + count * ENTRY;
  const fields = new Map<number, string>();
  for (let at = INTRO; at < store && at + ENTRY <= header.length; at += ENTRY) {
    const [tag, type, offset] = [view.getInt32(at), view.getInt32(at + 4), view.getInt32(at + 8)];
    const begin = store + offset;
    if (offset < 0 || begin >= header.length) continue;
    if (type === INT32 && begin + 4 <= header.length) fields.set(tag, String(view.getInt32(begin)));
    if (type !== STRING && type !== I18N_STRING) continue;
    const end = header.indexOf(0, begin);
    if (end >= 0) fields.set(tag, new TextDecoder().decode(header.subarray(begin, end)));
  }
  const [name, version, release] = [NAME, VERSION, RELEASE].map((tag) => fields.get(tag));
  // A key that signs packages is listed as a package itself.
  if (!name || !version || !release || name === "gpg-pubkey") return [];
  const epoch = fields.get(EPOCH);
  return [{
    type: "rpm",
    name,
    version: `${epoch && epoch !== "0" ? `${epoch}:` : ""}${version}-${release}`,
    ...(fields.has(ARCH) && { arch: fields.get(ARCH) }),
    ...(fields.has(LICENSE) && { license: fields.get(LICENSE) }),
  }];
}
