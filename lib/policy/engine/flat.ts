/** An event as CEL sees it: one variable per field of the catalogue, so that an absent field is a plain fact. */
import { catalogue, type Event } from "../../event/mod.ts";

/** The variable that stands for a field: `http.request.host` → `http__request__host`. */
export function variableOf(path: string): string {
  return path.replaceAll(".", "__");
}

/** Reads one field of an event. */
export type Getter = (event: Event) => unknown;

/** A function that reads the field at `path`, without parsing the path again. */
export function getterOf(path: string): Getter {
  const [a, b, c, d] = path.split(".");
  // deno-lint-ignore no-explicit-any
  type Any = any;
  if (d !== undefined) return (event: Any) => event[a]?.[b]?.[c]?.[d];
  if (c !== undefined) return (event: Any) => event[a]?.[b]?.[c];
  if (b !== undefined) return (event: Any) => event[a]?.[b];
  return (event: Any) => event[a];
}

/** The variables of one event; each is read when an expression asks for it. CEL's integers are bigints. */
export class FlatEvent {
  constructor(readonly event: Event) {}
}

for (const [path, { cel }] of catalogue) {
  const read = getterOf(path);
  Object.defineProperty(FlatEvent.prototype, variableOf(path), {
    get: cel === "int"
      ? function (this: FlatEvent) {
        const value = read(this.event);
        return value === undefined ? undefined : BigInt(value as number);
      }
      : function (this: FlatEvent) {
        return read(this.event);
      },
  });
}
