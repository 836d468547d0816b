/** Events as CEL variables: one per catalogue field, so that an absent field is an undefined variable. */
import { catalogue, type Event, getterOf } from "../../event/mod.ts";

/** CEL variable of a field: `http.request.host` → `http__request__host`. */
export function variableOf(path: string): string {
  return path.replaceAll(".", "__");
}

/** Variables of one event, read on demand. CEL integers are bigints. */
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
