/**
 * Calls of a cloud whose answers would hold keys: no token goes there
 * (docs/design/contracts/09-credentials.md §9, "Clouds").
 */
import { hostTest } from "../catalogue.ts";
import MINTING from "./minting.json" with { type: "json" };

/** Words of paths, or `?word` of queries, by host; `*` is every path. */
const WORDS = Object.entries(MINTING).map(([host, words]) => ({
  test: hostTest(host),
  words: new Set(words),
}));

/**
 * True for a call whose answer may hold keys.
 *
 * @param target path and query; absent: unknown, which counts as one
 */
export function mintsCloudKeys(host: string, target: string | undefined): boolean {
  const name = serviceHost(host);
  const found = WORDS.filter(({ test }) => test(name));
  if (found.length === 0) return false;
  if (target === undefined) return true;
  const [path, query = ""] = decoded(target).toLowerCase().split(/\?(.*)/s);
  // Names of OData may have their namespace in front.
  const calls = path.split(/[/:()]/).map((word) => word.replace(/^microsoft\.graph\./, ""));
  const said = [...calls, ...query.split(/[&=]/).map((word) => `?${word}`)];
  return found.some(({ words }) => words.has("*") || said.some((word) => words.has(word)));
}

/** Host of a service of Google that has others for regions and browsers. */
function serviceHost(host: string): string {
  return host.replace(/^content-(?=[a-z0-9-]+\.googleapis\.com$)/, "")
    .replace(/^([a-z0-9-]+)\.[a-z0-9-]+\.rep\.googleapis\.com$/, "$1.googleapis.com");
}

/** Undoes escapes, twice: servers differ on how often they do. */
function decoded(target: string): string {
  const once = (text: string) =>
    text.replace(/%([2-7][0-9A-Fa-f])/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return once(once(target));
}
