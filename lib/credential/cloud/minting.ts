/** Calls of a cloud whose answers would hold keys: no token goes there (docs/design/contracts/09-credentials.md §9, "Clouds"). */
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
  const found = WORDS.filter(({ test }) => test(host));
  if (found.length === 0) return false;
  if (target === undefined) return true;
  const [path, query = ""] = decoded(target).toLowerCase().split(/\?(.*)/s);
  const said = [...path.split(/[/:()]/), ...query.split(/[&=]/).map((word) => `?${word}`)];
  return found.some(({ words }) => words.has("*") || said.some((word) => words.has(word)));
}

/** Undoes escapes, twice: servers differ on how often they do. */
function decoded(target: string): string {
  const once = (text: string) =>
    text.replace(/%([2-7][0-9A-Fa-f])/g, (_, hex) => String.fromCharCode(parseInt(hex, 16)));
  return once(once(target));
}
