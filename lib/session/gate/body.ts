/** Texts of bodies in the parts of an event, which its parser has scrubbed: where the bytes are, and their cut. */
import { isObject } from "../../base/object/mod.ts";

type Body = Record<string, unknown>;

/** Keys of a family, a request or a response that lead to bodies; `part` is one of {@linkcode Redactor}'s. */
const KEYS = ["part", "request", "response", "body"];

/**
 * Leaves out the texts of binary bodies: rules read them, the record does not hold them
 * (docs/design/contracts/05-policy.md §5, "Families").
 *
 * @param part the object of a family, or its response
 * @returns the same object if it has no such text
 */
export function withoutBinaryText<T>(part: T): T {
  return someBody(part, isBinaryText)
    ? mapBodies(part as Body, (body) => isBinaryText(body) ? withoutText(body) : body) as T
    : part;
}

/** Leaves out the texts of all bodies, for a search. @returns the same object if it has none */
export function withoutTexts<T>(part: T): T {
  return someBody(part, hasText) ? mapBodies(part as Body, clearText) as T : part;
}

/** Puts the texts of the bodies of `part` into a copy of its other form, which has the same keys. */
export function withTextsOf<T>(other: T, part: T): T {
  const change = (body: Body, { text }: Body) => text === undefined ? body : { ...body, text };
  return mapBodies(other as Body, change, part as Body) as T;
}

/** True when a body of the part passes a test: most requests have no text, and nothing to leave out. */
function someBody(part: unknown, test: (body: Body) => boolean): boolean {
  if (!isObject(part)) return false;
  return isObject(part.body) && test(part.body) ||
    someBody(part.request, test) || someBody(part.response, test) || someBody(part.part, test);
}

function hasText({ text }: Body): boolean {
  return text !== undefined;
}

function isBinaryText({ state, text }: Body): boolean {
  return state === "binary" && text !== undefined;
}

/** @param change gets a body, and the one at the same place of `paired` */
function mapBodies(part: Body, change: (body: Body, paired: Body) => Body, paired = part): Body {
  let copy = part;
  for (const key of KEYS) {
    const value = part[key];
    const other = paired[key];
    if (!isObject(value) || !isObject(other)) continue;
    const changed = key === "body" ? change(value, other) : mapBodies(value, change, other);
    if (changed !== value) copy = { ...copy, [key]: changed };
  }
  return copy;
}

/** Faster than {@linkcode withoutText}, but the name of the text stays. */
function clearText(body: Body): Body {
  return hasText(body) ? { ...body, text: undefined } : body;
}

function withoutText({ text: _, ...rest }: Body): Body {
  return rest;
}
