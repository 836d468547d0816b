import { catalogue, fieldsOfFamily, nearest } from "../../event/mod.ts";
import type { Matchable } from "../match/index_node.ts";
import { fitsCatalogue, isObject } from "./shape.ts";

const EVENT_TYPES = new Set(catalogue.get("common.event_type")!.values);

/**
 * What keeps a value from being a policy context: a field that no event has, a value of another type, no event type.
 * It asks what `PolicyContextSchema` asks, short of the values of enumerations, and is fast enough for a file with a
 * million of them.
 *
 * @returns `<path>: <what>`; undefined when it is one
 */
export function contextFault(value: unknown): string | undefined {
  if (!fitsCatalogue(value)) return isObject(value) ? fieldFault(value, "") : "must be an object";
  return typeFault(value as Partial<Matchable>);
}

/** The same of a value of which every field is known to fit. */
export function typeFault(event: Partial<Matchable> & { schema_version?: number }): string | undefined {
  const type = event.common?.event_type;
  if (typeof type !== "string") {
    return `common.event_type: ${type === undefined ? "is missing" : "must be text"}`;
  }
  if (!EVENT_TYPES.has(type)) return `common.event_type: ${unknownWord(type, EVENT_TYPES)}`;
  if (event.schema_version !== undefined && event.schema_version !== 1) return "schema_version: must be 1";
}

/** The first field that does not fit, in words. */
function fieldFault(object: Record<string, unknown>, above: string): string | undefined {
  for (const [key, value] of Object.entries(object)) {
    const path = above + key;
    const field = catalogue.get(path);
    if (!field) {
      const below = [...catalogue.keys()].some((known) => known.startsWith(`${path}.`));
      if (!below) return `${shortened(path)}: ${noField(path)}`;
      if (!isObject(value)) return `${path}: must be an object`;
      const fault = fieldFault(value, `${path}.`);
      if (fault !== undefined) return fault;
    } else if (!fitsCatalogue(nested(path, value))) return `${path}: must be ${WORDS[field.type]}`;
  }
}

const WORDS = { string: "text", number: "a number", bool: "true or false", list: "a list", map: "an object" };

/** An object that holds a value at a path. */
function nested(path: string, value: unknown): unknown {
  return path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
}

function noField(path: string): string {
  const near = nearest(path, fieldsOfFamily(path.split(".")[0]));
  return `no event has this field${near ? `; did you mean ${near}?` : ""}`;
}

/** What is said of a word that is none of those there are. */
function unknownWord(word: string, known: Iterable<string>): string {
  const words = [...known];
  const near = nearest(word, words);
  return `there is no "${shortened(word)}"${
    near ? `; did you mean "${near}"?` : `; there are ${words.join(", ")}`
  }`;
}

/** Names of a hostile file are no longer than this in messages. */
const SHOWN_MAX = 80;

function shortened(text: string): string {
  return text.length > SHOWN_MAX ? `${text.slice(0, SHOWN_MAX)}…` : text;
}
