import { z } from "zod";
import { SbxError } from "../error/mod.ts";
import { nearest } from "../text/mod.ts";
import type { TomlDocument } from "./document.ts";

/** One problem in a document, worded for people. */
export interface Problem {
  /** from the root of the document */
  path: PropertyKey[];
  /** line of the key or of the table around it, from 1 */
  line: number;
  message: string;
}

/** Maximum problems listed in one error. */
const PROBLEMS_SHOWN = 10;
/** Maximum problems examined: a hostile file may contain a hundred thousand. */
const PROBLEMS_MAX = 200;

/**
 * Checks a document against a schema.
 *
 * @param code code of the thrown error, such as `profile.invalid`
 * @throws {SbxError} `code`: with one line per problem, `file:line: path: problem`
 */
export function checkToml<S extends z.ZodType>(document: TomlDocument, schema: S, code: string): z.output<S> {
  // Schemas drop this key in silence, and with it a rule or a server of that name.
  const mayHold = /__proto__|\\[uU]00/.test(document.text);
  const reserved = mayHold ? document.keys.filter(({ path }) => path.includes("__proto__")) : [];
  if (reserved.length > 0) {
    const [{ path, line }] = reserved;
    throw problemError(
      document,
      [{ path, line, message: "the key __proto__ is reserved; use another name" }],
      code,
    );
  }
  const result = schema.safeParse(document.value);
  if (result.success) return result.data;
  throw problemError(document, problemsOf(result.error, schema, document), code);
}

/** Builds one error that lists the problems with file and line. */
export function problemError(document: TomlDocument, problems: Problem[], code: string): SbxError {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(({ path, line, message }) =>
    `${document.path}:${line}: ${path.length ? `${pathText(path)}: ` : ""}${message}`
  );
  const more = problems.length - lines.length;
  return new SbxError(code, lines.join("\n") + (more > 0 ? `\n… and ${more} more` : ""), {
    hint: "correct the file at that line",
  });
}

/** Problems of a failed check, in line order. */
export function problemsOf(error: z.ZodError, schema: z.ZodType, document: TomlDocument): Problem[] {
  return error.issues.flatMap((issue) => describe(issue, schema)).slice(0, PROBLEMS_MAX).map((
    { path, message },
  ) => ({
    path,
    line: document.positionOf(path).line,
    message,
  })).sort((a, b) => a.line - b.line);
}

/** Converts a zod issue to paths and messages; each unknown key becomes a problem at that key. */
export function describe(
  issue: z.core.$ZodIssue,
  schema: z.ZodType,
): { path: PropertyKey[]; message: string }[] {
  if (issue.code === "unrecognized_keys") {
    const keys = schemaKeysAt(schema, issue.path);
    return issue.keys.map((key) => {
      const near = nearest(key, keys);
      return {
        path: [...issue.path, key],
        message: near
          ? `unknown key; did you mean "${near}"?`
          : `unknown key; expected one of ${keys.join(", ")}`,
      };
    });
  }
  if (issue.code === "invalid_key") {
    return [{ path: issue.path, message: issue.issues[0]?.message ?? "invalid name" }];
  }
  if (issue.code === "invalid_union") {
    // The alternative with the fewest issues is most likely the intended one.
    const [closest] = issue.errors.filter((issues) => issues.every((inner) => inner.path.length > 0))
      .toSorted((a, b) => a.length - b.length);
    if (closest) {
      return closest.flatMap((inner) =>
        describe({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, schema)
      );
    }
  }
  return [{ path: issue.path, message: messageOf(issue) }];
}

function messageOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return /received undefined$/.test(issue.message)
        ? "is missing"
        : `must be ${describeType(issue.expected)}`;
    case "invalid_value":
      return `must be ${issue.values.length > 1 ? "one of " : ""}${
        issue.values.map((value) => JSON.stringify(value)).join(", ")
      }`;
    case "too_small":
      return `must be at least ${issue.minimum}${unitOf(issue.origin)}`;
    case "too_big":
      return `must be at most ${issue.maximum}${unitOf(issue.origin)}`;
    case "invalid_union":
      return "has an unsupported form";
    default:
      // Formats and refinements carry the schema's own message.
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

function describeType(type: string): string {
  return TYPE_NAMES[type] ?? `of type ${type}`;
}

function unitOf(origin: string): string {
  return origin === "string" ? " characters" : origin === "array" ? " elements" : "";
}

/** Formats a path as `mcp.github.args[0]`, quoting segments where necessary. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.map((segment, index) => {
    if (typeof segment === "number") return `[${segment}]`;
    const text = String(segment);
    return (index ? "." : "") + (/^[A-Za-z0-9_-]+$/.test(text) ? text : JSON.stringify(text));
  }).join("");
}

/** Keys accepted by `schema` at `path`, for "did you mean"; empty where any key is accepted. */
function schemaKeysAt(schema: z.ZodType, path: readonly PropertyKey[]): string[] {
  const here = path.reduce<z.core.$ZodType[]>(
    (schemas, segment) => schemas.flatMap((inner) => memberOf(inner, String(segment))).flatMap(unwrap),
    unwrap(schema),
  );
  return [...new Set(here.flatMap((inner) => inner instanceof z.ZodObject ? Object.keys(inner.shape) : []))];
}

/** Schema of one member; empty for an unknown one. */
function memberOf(schema: z.core.$ZodType, segment: string): z.core.$ZodType[] {
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
