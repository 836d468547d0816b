/**
 * Checks the files that trees of new commits would put on the host's disk, and the submodules that they name.
 */
import { DEPTH_MAX, FILES_MAX, NEW_ENTRIES_MAX, PATH_MAX, TARGET_MAX, TREE_MAX } from "./limit.ts";
import { nameProblem, targetProblem } from "./name/mod.ts";
import { type ObjectReader, parseTree, type TreeEntry } from "./object.ts";
import { refused, tooLarge } from "./refusal.ts";
import type { Store } from "./store.ts";
import { shown, splitNul } from "./text.ts";

const FOLDER = "40000";
const LINK = "120000";
const SUBMODULE = "160000";
const MODES = new Set(["100644", "100755", FOLDER, LINK, SUBMODULE]);

/** Size of a tree's checkout. */
interface Extent {
  files: number;
  /** levels of folders */
  height: number;
  /** `bytes` of its longest path */
  longest: number;
}

/** Checks trees; each is read once. */
export class TreeCheck {
  readonly #reader: ObjectReader;
  readonly #idBytes: number;
  readonly #known: ReadonlySet<string>;
  readonly #trees = new Map<string, TreeEntry[]>();
  readonly #extents = new Map<string, Extent>();
  /** smallest depth at which the links of a tree were checked */
  readonly #depths = new Map<string, number>();
  #entries = 0;

  /**
   * @param idBytes length of an id
   * @param knownLinks `DEPTH:ID` of links that were brought in, which may lead anywhere
   */
  constructor(reader: ObjectReader, idBytes: number, knownLinks: ReadonlySet<string> = new Set()) {
    this.#reader = reader;
    this.#idBytes = idBytes;
    this.#known = knownLinks;
  }

  /**
   * Checks names and modes of every new tree, including trees that no commit reaches.
   *
   * @throws {SbxError} `repo.refused`, `repo.too_large`
   */
  async readNew(ids: string[]): Promise<void> {
    const asked = this.#reader.ask(ids);
    for (const id of ids) this.#keep(id, (await this.#reader.next(TREE_MAX)).bytes);
    await asked;
  }

  /** Checks the checkout of a commit's tree. @throws {SbxError} `repo.refused`, `repo.too_large` */
  async check(tree: string): Promise<void> {
    const { files, longest } = await this.#extent(tree, 0);
    if (files > FILES_MAX) throw tooLarge(`a commit of more than ${FILES_MAX} files`);
    if (longest > PATH_MAX) throw tooLarge(`a path of more than ${PATH_MAX} bytes`);
    await this.#checkLinks(tree, 0);
  }

  #keep(id: string, bytes: Uint8Array): TreeEntry[] {
    const entries = parseTree(bytes, this.#idBytes);
    this.#entries += entries.length;
    if (this.#entries > NEW_ENTRIES_MAX) throw tooLarge(`more than ${NEW_ENTRIES_MAX} entries of folders`);
    for (const { mode, name } of entries) {
      const problem = nameProblem(name);
      if (problem) throw refused(`${problem}: ${JSON.stringify(shown(name))}`);
      if (!MODES.has(mode)) throw refused(`"${shown(name)}" has the mode ${mode.slice(0, 12)}`);
      if (mode === LINK && /^\.git(?:modules|attributes|ignore)$/i.test(name)) {
        throw refused(`"${shown(name)}" is a link`);
      }
    }
    this.#trees.set(id, entries);
    return entries;
  }

  async #extent(id: string, depth: number): Promise<Extent> {
    const kept = this.#extents.get(id);
    if (kept) {
      if (depth + kept.height > DEPTH_MAX) throw tooDeep();
      return kept;
    }
    if (depth > DEPTH_MAX) throw tooDeep();
    const extent = { files: 0, height: 0, longest: 0 };
    for (const entry of await this.#entriesOf(id)) {
      const inner = entry.mode === FOLDER ? await this.#extent(entry.id, depth + 1) : undefined;
      extent.files += inner?.files ?? 1;
      if (extent.files > FILES_MAX) throw tooLarge(`a commit of more than ${FILES_MAX} files`);
      extent.height = Math.max(extent.height, (inner?.height ?? -1) + 1);
      extent.longest = Math.max(extent.longest, entry.name.length + (inner ? inner.longest + 1 : 0));
    }
    this.#extents.set(id, extent);
    return extent;
  }

  /** Brought-in trees are the person's own: only new ones are searched. */
  async #checkLinks(id: string, depth: number): Promise<void> {
    const entries = this.#trees.get(id);
    if (!entries || this.#depths.get(id)! <= depth) return;
    this.#depths.set(id, depth);
    for (const entry of entries) {
      if (entry.mode === FOLDER) await this.#checkLinks(entry.id, depth + 1);
      if (entry.mode !== LINK || this.#known.has(`${depth}:${entry.id}`)) continue;
      const { type, bytes } = await this.#reader.read(entry.id, TARGET_MAX);
      const problem = type === "blob"
        ? targetProblem(String.fromCharCode(...bytes), depth)
        : "a link without a target";
      if (problem) throw refused(`${problem}: "${shown(entry.name)}"`);
    }
  }

  async #entriesOf(id: string): Promise<TreeEntry[]> {
    const entries = this.#trees.get(id);
    if (entries) return entries;
    const { type, bytes } = await this.#reader.read(id, TREE_MAX);
    if (type !== "tree") throw refused(`the object ${id} is not a folder`);
    return parseTree(bytes, this.#idBytes);
  }
}

/** `DEPTH:ID` of the links of a listing, for {@linkcode TreeCheck}. @param lines of `ls-tree -r -z` */
export function linksOf(lines: string[]): Set<string> {
  return new Set(
    lines.filter((line) => line.startsWith(`${LINK} `)).map((line) => {
      const [head, path] = [line.slice(0, line.indexOf("\t")), line.slice(line.indexOf("\t") + 1)];
      return `${path.split("/").length - 1}:${head.split(" ")[2]}`;
    }),
  );
}

function tooDeep() {
  return tooLarge(`more than ${DEPTH_MAX} levels of folders`);
}

// Submodules that a guest names: on initialization, git would run or fetch their URLs.

const MODULES = ".gitmodules";
/** Most `bytes` of a .gitmodules. */
const MODULES_MAX = 1024 ** 2;
/** URLs that only fetch: `https://host/…`, `ssh://…`, `user@host:path`, `../other`. */
const URLS = [
  /^(?:https?|ssh|git):\/\/[A-Za-z0-9[][^\s\\]*$/,
  /^(?:[A-Za-z0-9_][\w.-]*@)?[A-Za-z0-9][\w.-]*:(?!:|\/\/)[^\s\\]*$/,
  /^\.\.?\/[^\s\\]*$/,
];
/** Controls end a value early where git writes it into a configuration, and rewrite a prompt. */
// deno-lint-ignore no-control-regex
const CONTROLS = /[\x00-\x1f\x7f-\x9f]/;
const UPDATES = new Set(["none", "checkout", "rebase", "merge"]);

/**
 * Checks the .gitmodules of every new commit.
 *
 * @throws {SbxError} `repo.refused`: a URL, path, name or update that is more than a place to fetch from
 */
export async function checkModules(
  store: Store,
  tip: string,
  known: string[],
  reader: ObjectReader,
): Promise<void> {
  const commits = (await store.git.text(["rev-list", tip, ...known.map((id) => `^${id}`)])).split("\n");
  const input = new TextEncoder().encode(
    commits.filter((id) => id !== "").map((id) => `${id}:${MODULES}\n`).join(""),
  );
  const listing = await store.git.text(["cat-file", "--batch-check=%(objectname) %(objecttype)"], { input });
  const own = new Set(
    await Promise.all(known.map((id) => store.git.text(["rev-parse", `${id}:${MODULES}`]).catch(() => ""))),
  );
  for (const line of new Set(listing.split("\n"))) {
    const [id, type] = line.split(" ");
    if (type === "missing" || line === "" || line.endsWith(" missing") || own.has(id)) continue;
    if (type !== "blob") throw refused(`"${MODULES}" is not a file`);
    await reader.read(id, MODULES_MAX);
    await checkBlob(store, id);
  }
}

async function checkBlob(store: Store, id: string): Promise<void> {
  const settings = splitNul(
    await store.git.run(["config", "--no-includes", "-z", "--list", `--blob=${id}`]).catch(() => {
      throw refused(`"${MODULES}" cannot be read`);
    }),
  );
  for (const setting of settings) {
    const end = setting.indexOf("\n");
    const [key, value] = end < 0 ? [setting, ""] : [setting.slice(0, end), setting.slice(end + 1)];
    const [, name, field] = /^submodule\.([^]*)\.([^.]*)$/.exec(key) ?? [];
    if (name === undefined) continue;
    const isSafe = isInside(name) && !CONTROLS.test(name + value) &&
      (field !== "url" || isFetchable(value)) &&
      (field !== "path" || isInside(value)) &&
      (field !== "update" || UPDATES.has(value));
    if (!isSafe) throw refused(`"${MODULES}" has ${shown(key)} = ${JSON.stringify(shown(value))}`);
  }
}

function isFetchable(url: string): boolean {
  const decoded = decodedUrl(url);
  // Paths may hold non-ASCII UTF-8; the part that a password prompt shows may not.
  const authority = decodedUrl(/^\w+:\/\/[^/?#]*/.exec(url)?.[0] ?? "");
  // deno-lint-ignore no-control-regex
  return URLS.some((form) => form.test(url)) && !/[\x00-\x20]/.test(decoded) && !CONTROLS.test(authority) &&
    !/:\/\/-|@-/.test(url);
}

/** A URL with each escape as one character, of its byte. */
function decodedUrl(url: string): string {
  return url.replace(/%[0-9a-f]{2}/gi, (code) => String.fromCharCode(parseInt(code.slice(1), 16)));
}

function isInside(path: string): boolean {
  return path !== "" && !path.startsWith("-") &&
    path.split("/").every((part) => nameProblem(part) === undefined);
}
