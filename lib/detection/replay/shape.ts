/** Checks recorded events against the field catalogue, for replays of millions of them: without zod. */
import { isObject } from "../../base/object/mod.ts";
import { catalogue, type CatalogueField } from "../../event/mod.ts";

/** Type of a field; `object` has catalogued fields of its own, `map` has any keys. */
const enum Kind {
  object,
  string,
  number,
  bool,
  list,
  map,
}

const KINDS: Record<CatalogueField["type"], Kind> = {
  string: Kind.string,
  number: Kind.number,
  bool: Kind.bool,
  list: Kind.list,
  map: Kind.map,
};

/**
 * Fields of one object of an event. Caches the keys of the last valid object: most objects have the same keys
 * in the same order, and comparing them costs a tenth of looking each up.
 */
class Shape {
  readonly fields = new Map<string, { kind: Kind; shape?: Shape }>();
  #keys: string[] = [];
  #kinds: Kind[] = [];
  #shapes: (Shape | undefined)[] = [];

  fits(object: Record<string, unknown>): boolean {
    const [keys, kinds] = [this.#keys, this.#kinds];
    let at = 0;
    for (const key in object) {
      if (key !== keys[at]) return this.#fitsUncached(object);
      const value = object[key];
      if (kinds[at] === Kind.object) {
        if (!isObject(value) || !this.#shapes[at]!.fits(value)) return false;
      } else if (!hasKind(value, kinds[at])) return false;
      at++;
    }
    return true;
  }

  #fitsUncached(object: Record<string, unknown>): boolean {
    const keys = Object.keys(object);
    const fields = keys.map((key) => this.fields.get(key));
    for (let at = 0; at < keys.length; at++) {
      const field = fields[at];
      const value = object[keys[at]];
      if (!field || !hasKind(value, field.kind)) return false;
      if (field.shape && !field.shape.fits(value as Record<string, unknown>)) return false;
    }
    this.#keys = keys;
    this.#kinds = fields.map((field) => field!.kind);
    this.#shapes = fields.map((field) => field!.shape);
    return true;
  }
}

const EVENT = new Shape();
for (const [path, { type }] of catalogue) {
  const keys = path.split(".");
  const last = keys.pop()!;
  let shape = EVENT;
  for (const key of keys) {
    let field = shape.fields.get(key);
    if (!field) shape.fields.set(key, field = { kind: Kind.object, shape: new Shape() });
    shape = field.shape!;
  }
  shape.fields.set(last, { kind: KINDS[type] });
}

const FIXTURE = new Shape();
const REF = new Shape();
for (const key of ["corpus", "session_id", "event_id"]) REF.fields.set(key, { kind: Kind.string });
for (const key of ["sequence", "timestamp_unix_ms"]) REF.fields.set(key, { kind: Kind.number });
FIXTURE.fields.set("schema", { kind: Kind.string }).set("event_ref", { kind: Kind.object, shape: REF })
  .set("expected_labels", { kind: Kind.list }).set("context", { kind: Kind.object, shape: EVENT });

/** Checks that a value has only event fields, each of the right type. */
export function fitsCatalogue(value: unknown): boolean {
  return isObject(value) && EVENT.fits(value);
}

/** Checks a fixture line, which has an event as `context`. */
export function fitsFixture(value: Record<string, unknown>): boolean {
  return FIXTURE.fits(value);
}

function hasKind(value: unknown, kind: Kind): boolean {
  switch (kind) {
    case Kind.string:
      return typeof value === "string";
    case Kind.number:
      return typeof value === "number";
    case Kind.bool:
      return typeof value === "boolean";
    case Kind.list:
      return Array.isArray(value);
    default:
      return isObject(value);
  }
}
