/** Texts of bodies in the parts of an event, which its parser has scrubbed: where the bytes are, and their cut. */
import { isObject } from "../base/object/mod.ts";

type Body = Record<string, unknown>;

/** Keys of a family, a request or a response that lead to bodies; `part` is one of {@linkcode Redactor}'s. */
const KEYS = ["part", "request", "response", "body"];

/**
 * Leaves out the texts of binary bodies: rules read them, the record does not hold them (docs/contracts.md §5, "Families").
 *
 * @param part the object of a family, or its response
 * @returns the same object if it has no such text
 */
export function withoutBinaryText<T>(part: T): T {
  return hasText(part)
    ? mapBodies(part, (body) => body.state === "binary" ? withoutText(body) : body) as T
    : part;
}

/** Leaves out the texts of all bodies. @returns the same object if it has none */
export function withoutTexts<T>(part: T): T {
  return hasText(part) ? mapBodies(part, withoutText) as T : part;
}

/** Puts the texts of the bodies of `part` into a copy of its other form, which has the same keys. */
export function withTextsOf<T>(other: T, part: T): T {
  return mapBodies(other, (body, { text }) => text === undefined ? body : { ...body, text }, part) as T;
}

/** True when a body of the part has a text: most requests have none, and nothing to leave out. */
function hasText(part: unknown): boolean {
  if (!isObject(part)) return false;
  return isObject(part.body) && part.body.text !== undefined ||
    hasText(part.request) || hasText(part.response) || hasText(part.part);
}

/** @param change gets a body, and the one at the same place of `paired` */
function mapBodies(
  part: unknown,
  change: (body: Body, paired: Body) => Body,
  paired: unknown = part,
): unknown {
  if (!isObject(part) || !isObject(paired)) return part;
  let copy = part;
  for (const key of KEYS) {
    const [value, other] = [part[key], paired[key]];
    if (!isObject(value) || !isObject(other)) continue;
    const changed = key === "body" ? change(value, other) : mapBodies(value, change, other);
    if (changed !== value) copy = { ...copy, [key]: changed };
  }
  return copy;
}

function withoutText(body: Body): Body {
  if (body.text === undefined) return body;
  const { text: _, ...rest } = body;
  return rest;
}
