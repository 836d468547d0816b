/** Submodules that a guest names: on initialization, git would run or fetch their URLs. */
import { refused } from "./git_bundle.ts";
import { shown, splitNul } from "./text.ts";
import { nameProblem } from "./name/mod.ts";
import type { ObjectReader } from "./object.ts";
import type { Store } from "./store.ts";

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
    if (type !== "blob") throw refused(`"${MODULES}" is no file`);
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
