import type { Event } from "./event.ts";

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
