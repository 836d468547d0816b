import type { Event } from "./event.ts";

/** Reader of one field of an event. */
export type Getter = (event: Event) => unknown;

/** Compiles a path to a getter, so that the path is parsed once. */
export function getterOf(path: string): Getter {
  const [a, b, c, d] = path.split(".");
  // deno-lint-ignore no-explicit-any
  type Any = any;
  if (d !== undefined) return (event: Any) => event[a]?.[b]?.[c]?.[d];
  if (c !== undefined) return (event: Any) => event[a]?.[b]?.[c];
  if (b !== undefined) return (event: Any) => event[a]?.[b];
  return (event: Any) => event[a];
}
