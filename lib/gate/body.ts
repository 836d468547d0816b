import { isObject } from "../base/object/mod.ts";

/**
 * Leaves out the texts of binary bodies: rules read them, the record does not hold them (docs/contracts.md §5, "Families").
 *
 * @param part the object of a family, or its response
 * @returns the same object if it has no such text
 */
export function withoutBinaryText<T>(part: T): T {
  if (!isObject(part)) return part;
  let copy: Record<string, unknown> = part;
  for (const key of ["request", "response", "body"]) {
    const value = part[key];
    const recorded = key === "body" ? bodyWithoutText(value) : withoutBinaryText(value);
    if (recorded !== value) copy = { ...copy, [key]: recorded };
  }
  return copy as T;
}

function bodyWithoutText(body: unknown): unknown {
  if (!isObject(body) || body.state !== "binary" || body.text === undefined) return body;
  const { text: _, ...rest } = body;
  return rest;
}
