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

/**
 * Reads the packages of a database from an image. SQLite reads files of strangers; nothing is written.
 *
 * @returns undefined: it cannot be read
 */
export function rpmPackages(path: string): FoundPackage[] | undefined {
  try {
    const database = new DatabaseSync(path, { readOnly: true });
    try {
      const rows = database.prepare("SELECT blob FROM Packages ORDER BY hnum").all() as { blob: unknown }[];
      return rows.flatMap(({ blob }) => blob instanceof Uint8Array ? packageOf(blob) : []);
    } finally {
      database.close();
    }
  } catch {
    return undefined;
  }
}

function packageOf(header: Uint8Array): FoundPackage[] {
  const view = new DataView(header.buffer, header.byteOffset, header.byteLength);
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
  // Keys that signed packages look like packages of their own.
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
