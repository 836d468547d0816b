import { catalogue, type CatalogueField } from "../../event/mod.ts";

/** What a field may hold; `below` is an object with fields of its own. */
const enum Kind {
  below,
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
 * The fields of one object of an event. It remembers the keys of the last object that fitted: most look like the one
 * before, and comparing keys in order costs a tenth of looking each up.
 */
class Shape {
  readonly fields = new Map<string, { kind: Kind; below?: Shape }>();
  #keys: string[] = [];
  #kinds: Kind[] = [];
  #below: (Shape | undefined)[] = [];

  fits(object: Record<string, unknown>): boolean {
    const [keys, kinds] = [this.#keys, this.#kinds];
    let at = 0;
    for (const key in object) {
      if (key !== keys[at]) return this.#fitsAnew(object);
      const value = object[key];
      if (kinds[at] === Kind.below) {
        if (!isObject(value) || !this.#below[at]!.fits(value)) return false;
      } else if (!isOf(value, kinds[at])) return false;
      at++;
    }
    return true;
  }

  #fitsAnew(object: Record<string, unknown>): boolean {
    const keys = Object.keys(object);
    const found = keys.map((key) => this.fields.get(key));
    for (let at = 0; at < keys.length; at++) {
      const field = found[at];
      const value = object[keys[at]];
      if (!field || !isOf(value, field.kind)) return false;
      if (field.below && !field.below.fits(value as Record<string, unknown>)) return false;
    }
    this.#keys = keys;
    this.#kinds = found.map((field) => field!.kind);
    this.#below = found.map((field) => field!.below);
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
    if (!field) shape.fields.set(key, field = { kind: Kind.below, below: new Shape() });
    shape = field.below!;
  }
  shape.fields.set(last, { kind: KINDS[type] });
}

const FIXTURE = new Shape();
const REF = new Shape();
for (const key of ["corpus", "session_id", "event_id"]) REF.fields.set(key, { kind: Kind.string });
for (const key of ["sequence", "timestamp_unix_ms"]) REF.fields.set(key, { kind: Kind.number });
FIXTURE.fields.set("schema", { kind: Kind.string }).set("event_ref", { kind: Kind.below, below: REF })
  .set("expected_labels", { kind: Kind.list }).set("context", { kind: Kind.below, below: EVENT });

/** Whether a value has the fields of events and no other, each of its type. */
export function fitsCatalogue(value: unknown): boolean {
  return isObject(value) && EVENT.fits(value);
}

/** The same of a line of an events file, which has an event as `context`. */
export function fitsFixture(value: Record<string, unknown>): boolean {
  return FIXTURE.fits(value);
}

function isOf(value: unknown, kind: Kind): boolean {
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

/** An object that is no list. */
export function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}
