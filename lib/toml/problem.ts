import type { z } from "zod";
import { nearest } from "../event/mod.ts";
import { SbxError } from "../base/error/mod.ts";
import { knownKeys } from "./known.ts";
import type { TomlDocument } from "./document.ts";

/** One thing that is wrong in a document, in a person's words. */
export interface Problem {
  /** from the root of the document */
  path: PropertyKey[];
  /** 1-based, of the key or of the table around it */
  line: number;
  message: string;
}

/** Most problems that one error lists; who has more corrects these first. */
const PROBLEMS_SHOWN = 10;
/** Most problems that are looked at: a hostile file may hold a hundred thousand. */
const PROBLEMS_MAX = 200;

/**
 * Checks a document against a schema.
 *
 * @param code of the error that is thrown, such as `profile.invalid`
 * @throws {SbxError} with every problem, each as `file:line: path: what`
 */
export function checkToml<S extends z.ZodType>(document: TomlDocument, schema: S, code: string): z.output<S> {
  const result = schema.safeParse(document.value);
  if (result.success) return result.data;
  throw problemError(document, problemsOf(result.error, schema, document), code);
}

/** One error that names every problem with its file and line. */
export function problemError(document: TomlDocument, problems: Problem[], code: string): SbxError {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(({ path, line, message }) =>
    `${document.path}:${line}: ${path.length ? `${pathText(path)}: ` : ""}${message}`
  );
  const more = problems.length - lines.length;
  return new SbxError(code, lines.join("\n") + (more > 0 ? `\n… and ${more} more` : ""), {
    hint: "correct the file at that line",
  });
}

/** What a failed check found, in the order of the lines. */
export function problemsOf(error: z.ZodError, schema: z.ZodType, document: TomlDocument): Problem[] {
  return error.issues.flatMap((issue) => describe(issue, schema)).slice(0, PROBLEMS_MAX).map((
    { path, message },
  ) => ({
    path,
    line: document.positionOf(path).line,
    message,
  })).sort((a, b) => a.line - b.line);
}

/** A zod issue as path and message; an unknown key becomes one problem each, at the key itself. */
export function describe(
  issue: z.core.$ZodIssue,
  schema: z.ZodType,
): { path: PropertyKey[]; message: string }[] {
  if (issue.code === "unrecognized_keys") {
    const known = knownKeys(schema, issue.path);
    return issue.keys.map((key) => {
      const near = nearest(key, known);
      return {
        path: [...issue.path, key],
        message: near ? `unknown key; did you mean "${near}"?` : `unknown key; known are ${known.join(", ")}`,
      };
    });
  }
  if (issue.code === "invalid_key") {
    return [{ path: issue.path, message: issue.issues[0]?.message ?? "not a valid name" }];
  }
  if (issue.code === "invalid_union") {
    // The form that fits best is most likely the one that was meant.
    const [nearestForm] = issue.errors.filter((form) => form.every((inner) => inner.path.length > 0))
      .toSorted((a, b) => a.length - b.length);
    if (nearestForm) {
      return nearestForm.flatMap((inner) =>
        describe({ ...inner, path: [...issue.path, ...inner.path] } as z.core.$ZodIssue, schema)
      );
    }
  }
  return [{ path: issue.path, message: messageOf(issue) }];
}

function messageOf(issue: z.core.$ZodIssue): string {
  switch (issue.code) {
    case "invalid_type":
      return /received undefined$/.test(issue.message) ? "is missing" : `must be ${article(issue.expected)}`;
    case "invalid_value":
      return `must be ${issue.values.length > 1 ? "one of " : ""}${
        issue.values.map((value) => JSON.stringify(value)).join(", ")
      }`;
    case "too_small":
      return `must be at least ${issue.minimum}${unit(issue.origin)}`;
    case "too_big":
      return `must be at most ${issue.maximum}${unit(issue.origin)}`;
    case "invalid_union":
      return "has none of the forms that are allowed here";
    default:
      // Formats and refinements: the schema gives the words.
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

function article(type: string): string {
  return TYPE_NAMES[type] ?? `of type ${type}`;
}

function unit(origin: string): string {
  return origin === "string" ? " characters" : origin === "array" ? " elements" : "";
}

/** `mcp.github.args[0]`, with quotes where a segment is not bare. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.map((segment, index) => {
    if (typeof segment === "number") return `[${segment}]`;
    const text = String(segment);
    return (index ? "." : "") + (/^[A-Za-z0-9_-]+$/.test(text) ? text : JSON.stringify(text));
  }).join("");
}
