/** The field catalogue: what rules, detection mappings, completion and docs know of an event. */
import { FIELDS } from "./fields.ts";

/** One field of an event. */
export interface CatalogueField {
  type: "string" | "number" | "bool" | "list" | "map";
  /** its CEL type, `map<string, list<string>>` */
  cel: string;
  /** every value that it can have, where they are few */
  values?: string[];
  description?: string;
}

/** Every field by path (`http.request.host`), generated from the zod definition. */
export const catalogue: ReadonlyMap<string, CatalogueField> = new Map(Object.entries(FIELDS));

/** Paths of one family's own fields, and of the common ones. */
export function fieldsOfFamily(family: string): string[] {
  return [...catalogue.keys()].filter((path) => path.startsWith(`${family}.`) || path.startsWith("common."));
}

/** The value at a path of an event, `undefined` when any part of it is absent. */
export function valueAt(event: unknown, path: string): unknown {
  let value = event;
  for (const key of path.split(".")) {
    if (value === null || typeof value !== "object" || !Object.hasOwn(value, key)) return undefined;
    value = (value as Record<string, unknown>)[key];
  }
  return value;
}

/** The known path nearest to a wrong one, if any is near: the "did you mean" of rules and mappings. */
export function nearestField(path: string): string | undefined {
  return nearest(path, catalogue.keys());
}

/** The candidate at the smallest edit distance from `word`, if that is at most a third of its length. */
export function nearest(word: string, candidates: Iterable<string>): string | undefined {
  let best: string | undefined;
  let bestDistance = Math.max(1, Math.floor(word.length / 3)) + 1;
  for (const candidate of candidates) {
    const distance = editDistance(word, candidate, bestDistance);
    if (distance < bestDistance) [best, bestDistance] = [candidate, distance];
  }
  return best;
}

/** Edit distance with swapped neighbours as one edit, given up at `limit`. */
function editDistance(a: string, b: string, limit: number): number {
  if (Math.abs(a.length - b.length) >= limit) return limit;
  let before: number[] = [];
  let above: number[] = [];
  let row = Array.from({ length: b.length + 1 }, (_, at) => at);
  for (let i = 1; i <= a.length; i++) {
    [before, above, row] = [above, row, [i]];
    for (let j = 1; j <= b.length; j++) {
      const replaced = above[j - 1] + (a[i - 1] === b[j - 1] ? 0 : 1);
      const swapped = i > 1 && j > 1 && a[i - 1] === b[j - 2] && a[i - 2] === b[j - 1]
        ? before[j - 2] + 1
        : limit;
      row[j] = Math.min(above[j] + 1, row[j - 1] + 1, replaced, swapped);
    }
    if (Math.min(...row) > limit) return limit;
  }
  return row[b.length];
}
