/** Words zod's issues for the person who wrote the value. */
import { z } from "zod";
import { nearest, suggestion } from "../text/mod.ts";

/** One fault of a value. */
interface IssueText {
  /** keys from the root of the value */
  path: PropertyKey[];
  message: string;
}

/**
 * Words an issue; each unknown key is a fault of its own.
 *
 * @param schema schema of the whole value, which has the known keys
 */
export function describeIssue(issue: z.core.$ZodIssue, schema: z.ZodType): IssueText[] {
  switch (issue.code) {
    case "unrecognized_keys": {
      const known = keysAt(schema, issue.path);
      return issue.keys.map((key) => ({ path: [...issue.path, key], message: unknownKey(key, known) }));
    }
    case "invalid_key":
      return [{ path: issue.path, message: issue.issues[0] ? messageOf(issue.issues[0]) : "invalid name" }];
    case "invalid_union":
      return closestAlternative(issue)?.flatMap((inner) =>
        describeIssue({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, schema)
      ) ?? [{ path: issue.path, message: "has an unsupported form" }];
    default:
      return [{ path: issue.path, message: messageOf(issue) }];
  }
}

function unknownKey(key: string, known: readonly string[]): string {
  const near = nearest(key, known);
  return `unknown key; ${near ? suggestion(near) : `expected one of ${known.join(", ")}`}`;
}

/**
 * Issues of the alternative that was most likely meant: the one with the fewest. `undefined` if the value
 * itself is wrong for every alternative.
 */
function closestAlternative({ errors }: z.core.$ZodIssueInvalidUnion): z.core.$ZodIssue[] | undefined {
  const [closest] = errors.filter((issues) => issues.every(({ path }) => path.length > 0))
    .toSorted((a, b) => a.length - b.length);
  return closest;
}

function messageOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type": {
      const isMissing = /received undefined$/.test(issue.message);
      return isMissing ? "is missing" : `must be ${nameOfType(issue.expected)}`;
    }
    case "invalid_value": {
      const values = issue.values.map((value) => JSON.stringify(value)).join(", ");
      return `must be ${issue.values.length > 1 ? "one of " : ""}${values}`;
    }
    case "too_small":
      return `must be ${issue.inclusive === false ? "more than" : "at least"} ${issue.minimum}${
        unitOf(issue.origin, issue.minimum)
      }`;
    case "too_big":
      return `must be ${issue.inclusive === false ? "less than" : "at most"} ${issue.maximum}${
        unitOf(issue.origin, issue.maximum)
      }`;
    case "invalid_format":
      // Zod's own message is the pattern; one from the schema is for people.
      return issue.message.includes(String(issue.pattern)) ? "has an unsupported form" : issue.message;
    default:
      // Refinements carry the schema's own message.
      return issue.message;
  }
}

const TYPE_NAMES: Record<string, string> = {
  string: "text",
  number: "a number",
  int: "an integer",
  boolean: "true or false",
  object: "a table",
  record: "a table",
  array: "a list",
};

function nameOfType(type: string): string {
  return TYPE_NAMES[type] ?? `of type ${type}`;
}

/** Unit of a limit, with a space before it: characters of a text, elements of a list. */
function unitOf(origin: string, count: number | bigint): string {
  const unit = { string: " character", array: " element" }[origin];
  return unit === undefined ? "" : count === 1 ? unit : `${unit}s`;
}

/** Keys that a schema knows at a path, for "did you mean"; empty where it takes any key. */
function keysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  let here = unwrap(schema);
  for (const segment of path) here = here.flatMap((each) => membersOf(each, String(segment))).flatMap(unwrap);
  return [...new Set(here.flatMap((each) => each instanceof z.ZodObject ? Object.keys(each.shape) : []))];
}

/** The schema of one member, in a list; empty for a member that the schema does not know. */
function membersOf(schema: z.core.$ZodType, segment: string): z.core.$ZodType[] {
  if (schema instanceof z.ZodObject) {
    return Object.hasOwn(schema.shape, segment) ? [schema.shape[segment]] : [];
  }
  if (schema instanceof z.ZodRecord) return [schema.valueType];
  return schema instanceof z.ZodArray ? [schema.element] : [];
}

/** Schemas inside optional, default, transform and union wrappers. */
function unwrap(schema: z.core.$ZodType): z.core.$ZodType[] {
  if (schema instanceof z.ZodOptional || schema instanceof z.ZodDefault || schema instanceof z.ZodPrefault) {
    return unwrap(schema.def.innerType);
  }
  if (schema instanceof z.ZodPipe) return unwrap(schema.def.in);
  return schema instanceof z.ZodUnion ? schema.def.options.flatMap(unwrap) : [schema];
}
