/** A JSON value without one of its keys. */
import type { Parsed } from "./json.ts";

export interface Lacking {
  /** the missing key, such as `assets.releases` */
  path: string;
  value: Parsed;
}

/** Copies of a JSON value, each without one key or element at any depth. */
export function lackingEach(value: Parsed): Lacking[] {
  return pathsOf(value).map((path) => {
    const copy = structuredClone(value);
    const parent = path.slice(0, -1).reduce((at, key) => at[key], copy);
    if (Array.isArray(parent)) parent.splice(Number(path.at(-1)), 1);
    else delete parent[path.at(-1)!];
    return { path: path.join("."), value: copy };
  });
}

function pathsOf(value: unknown): string[][] {
  if (typeof value !== "object" || value === null) return [];
  return Object.entries(value).flatMap(([key, child]) => [
    [key],
    ...pathsOf(child).map((path) => [key, ...path]),
  ]);
}
