import { isObject } from "../../base/object/mod.ts";
import { nearest, suggestion } from "../../base/text/mod.ts";
import { catalogue, fieldsOfFamily } from "../../event/mod.ts";
import type { Matchable } from "../match/index_node.ts";
import { fitsCatalogue } from "./shape.ts";

const EVENT_TYPES = new Set(catalogue.get("common.event_type")!.values);

/**
 * Checks that a value is a policy context: known fields, correct types, an event type. Equivalent to
 * `PolicyContextSchema` except for enumeration values, and fast enough for a file with a million events.
 *
 * @returns `<path>: <problem>`, or `undefined`
 */
export function checkContext(value: unknown): string | undefined {
  if (!fitsCatalogue(value)) return isObject(value) ? checkFields(value, "") : "must be an object";
  return checkEventType(value as Partial<Matchable>);
}

/** Checks the event type of a value whose fields were already checked. */
export function checkEventType(event: Partial<Matchable> & { schema_version?: number }): string | undefined {
  const type = event.common?.event_type;
  if (typeof type !== "string") {
    return `common.event_type: ${type === undefined ? "is missing" : "must be a string"}`;
  }
  if (!EVENT_TYPES.has(type)) return `common.event_type: ${describeUnknownWord(type, EVENT_TYPES)}`;
  if (event.schema_version !== undefined && event.schema_version !== 1) return "schema_version: must be 1";
}

/** Finds the first unknown field or wrong type. */
function checkFields(object: Record<string, unknown>, above: string): string | undefined {
  for (const [key, value] of Object.entries(object)) {
    const path = above + key;
    const field = catalogue.get(path);
    if (!field) {
      const below = [...catalogue.keys()].some((catalogued) => catalogued.startsWith(`${path}.`));
      if (!below) return `${truncate(path)}: ${describeUnknownField(path)}`;
      if (!isObject(value)) return `${path}: must be an object`;
      const fault = checkFields(value, `${path}.`);
      if (fault !== undefined) return fault;
    } else if (!fitsCatalogue(nest(path, value))) return `${path}: must be ${WORDS[field.type]}`;
  }
}

const WORDS = {
  string: "a string",
  number: "a number",
  bool: "true or false",
  list: "a list",
  map: "an object",
};

/** Wraps a value in the objects of a path. */
function nest(path: string, value: unknown): unknown {
  return path.split(".").reduceRight<unknown>((inner, key) => ({ [key]: inner }), value);
}

function describeUnknownField(path: string): string {
  const near = nearest(path, fieldsOfFamily(path.split(".")[0]));
  return `unknown event field${near ? `; ${suggestion(near)}` : ""}`;
}

/** Describes a word outside a fixed set. */
function describeUnknownWord(word: string, allowed: Iterable<string>): string {
  const words = [...allowed];
  const near = nearest(word, words);
  return `unknown value "${truncate(word)}"${
    near ? `; ${suggestion(near)}` : `; use one of ${words.join(", ")}`
  }`;
}

/** Maximum characters of a name from a file in a message. */
const NAME_MAX = 80;

function truncate(text: string): string {
  return text.length > NAME_MAX ? `${text.slice(0, NAME_MAX)}…` : text;
}
