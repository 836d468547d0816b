/** Settings as values: read, searched by patterns of keys, changed and written. */
import { isDeeper } from "../base/json/mod.ts";
import { isTable, parseToml, stringifyToml } from "../base/toml/mod.ts";
import type { SettingsFile } from "../config/profile/mod.ts";
import { NESTING_MAX, VALUES_MAX } from "./limit.ts";

type Format = SettingsFile["format"];
export type Table = Record<string, unknown>;
/** Names of keys and indices of lists, from the root to a value. */
export type KeyPath = readonly string[];

/** A key that would change the object instead of being in it, also with an escape. */
const RESERVED = /__proto__|\\u005f|\\x5f/i;

/** Reads a file of settings. @throws {Error} it has no such form, or is nested too deep */
export async function parseSettings(format: Format, text: string): Promise<Table> {
  if (RESERVED.test(text)) throw new SyntaxError('has a key "__proto__"');
  const value = await parse(format, text.replace(/^\ufeff/, ""));
  if (!isTable(value)) throw new SyntaxError("is not a table");
  requireSmall(value, { left: VALUES_MAX }, NESTING_MAX);
  return value;
}

async function parse(format: Format, text: string): Promise<unknown> {
  if (format === "toml") return parseToml(text, "settings").value;
  if (format === "yaml") return (await import("js-yaml")).load(text);
  if (isDeeper(text, NESTING_MAX)) throw new SyntaxError("nested too deep");
  return (await import("@std/jsonc")).parse(text);
}

/**
 * Aliases of YAML may be nested in themselves, and a few of them stand for more
 * values than there is time for.
 */
function requireSmall(value: unknown, count: { left: number }, levels: number): void {
  if (count.left-- === 0) throw new SyntaxError("has too many values");
  if (typeof value !== "object" || value === null) return;
  if (levels === 0) throw new SyntaxError("nested too deep");
  for (const each of Object.values(value)) requireSmall(each, count, levels - 1);
}

/** The text of a file of settings. */
export async function formatSettings(format: Format, value: Table): Promise<string> {
  if (format === "toml") return stringifyToml(value);
  if (format === "yaml") return (await import("js-yaml")).dump(value);
  return `${JSON.stringify(value, null, 2)}\n`;
}

/** Lays one table over another: its values count, tables are laid over tables. */
export function layOver(below: Table, above: Table): Table {
  const both: Table = { ...below };
  for (const [key, value] of Object.entries(above)) {
    const under = Object.hasOwn(both, key) ? both[key] : undefined;
    both[key] = isTable(under) && isTable(value) ? layOver(under, value) : value;
  }
  return both;
}

/** The values that a pattern of keys finds, with their paths. */
export function findValues(value: unknown, pattern: string): { path: string[]; value: unknown }[] {
  let found: { path: string[]; value: unknown }[] = [{ path: [], value }];
  for (const part of pattern.split(".")) {
    const name = new RegExp(`^${part.split("*").map(RegExp.escape).join(".*")}$`, "s");
    found = found.flatMap(({ path, value }) =>
      entriesOf(value).filter(([key]) => name.test(key)).map(([key, each]) => ({
        path: [...path, key],
        value: each,
      }))
    );
  }
  return found;
}

/** Members of a table or a list, by key or index. */
export function entriesOf(value: unknown): [string, unknown][] {
  if (Array.isArray(value)) return value.map((each, at) => [String(at), each]);
  return isTable(value) ? Object.entries(value) : [];
}

/** A name for a path of keys, and of no other: an answer about a program names it by this. */
export const pathName = (path: KeyPath): string =>
  path.map((key) => /^[^.#"\s]+$/.test(key) ? key : JSON.stringify(key)).join(".");

/** The value without the ones at some paths. */
export function without(value: unknown, paths: readonly KeyPath[]): unknown {
  if (paths.length === 0) return value;
  const rest = (key: string) => paths.filter(([first]) => first === key).map((path) => path.slice(1));
  const kept = entriesOf(value).filter(([key]) => !rest(key).some(({ length }) => length === 0))
    .map(([key, each]) => [key, without(each, rest(key))] as const);
  return Array.isArray(value) ? kept.map(([, each]) => each) : Object.fromEntries(kept);
}

/** The table with the values at some paths alone. Elements of lists cannot be chosen. */
export function onlyAt(value: Table, paths: readonly KeyPath[]): Table {
  const out: Table = {};
  for (const [key, each] of Object.entries(value)) {
    const rest = paths.filter(([first]) => first === key).map((path) => path.slice(1));
    if (rest.some(({ length }) => length === 0)) out[key] = each;
    else if (rest.length > 0 && isTable(each)) out[key] = onlyAt(each, rest);
  }
  return out;
}

/** The value with other texts. */
export function mapTexts(
  value: unknown,
  change: (text: string, path: KeyPath) => string,
  path: KeyPath = [],
): unknown {
  if (typeof value === "string") return change(value, path);
  if (Array.isArray(value)) return value.map((each, at) => mapTexts(each, change, [...path, String(at)]));
  if (!isTable(value)) return value;
  return Object.fromEntries(
    Object.entries(value).map(([key, each]) => [key, mapTexts(each, change, [...path, key])]),
  );
}
