/**
 * Field catalogue of events and readers of their fields, for rules, detection mappings, completion and docs.
 */
import { nearest } from "../base/text/mod.ts";
import { FIELDS } from "./fields.ts";
import type { CatalogueField } from "./field.ts";
import type { Event } from "./event.ts";

/** Fields by path (`http.request.host`), generated from the zod definition. */
export const catalogue: ReadonlyMap<string, CatalogueField> = new Map(Object.entries(FIELDS));

/** Paths of one family's fields and of the common fields. */
export function fieldsOfFamily(family: string): string[] {
  return [...catalogue.keys()].filter((path) => path.startsWith(`${family}.`) || path.startsWith("common."));
}

/** Value at a path of an event; `undefined` if any part is absent. */
export function valueAt(event: unknown, path: string): unknown {
  let value = event;
  for (const key of path.split(".")) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/**
 * Field path nearest to a misspelled one, for "did you mean" in rules and
 * mappings; `undefined` if none is near.
 */
export function nearestField(path: string): string | undefined {
  return nearest(path, catalogue.keys());
}

/** Reader of one field of an event. */
export type Getter = (event: Event) => unknown;

interface Fields {
  [name: string]: Fields | undefined;
}

const fieldsOf = (event: Event) => event as unknown as Fields;

/** Compiles a path to a getter, so that the path is parsed once. */
export function getterOf(path: string): Getter {
  const [a, b, c, d] = path.split(".");
  if (d !== undefined) return (event) => fieldsOf(event)[a]?.[b]?.[c]?.[d];
  if (c !== undefined) return (event) => fieldsOf(event)[a]?.[b]?.[c];
  if (b !== undefined) return (event) => fieldsOf(event)[a]?.[b];
  return (event) => fieldsOf(event)[a];
}
