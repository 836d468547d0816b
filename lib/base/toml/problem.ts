/** Problems of a TOML document against its schema, listed with the lines they are on. */
import type { z } from "zod";
import { SbxError } from "../error/mod.ts";
import type { TomlDocument } from "./document.ts";
import { describeIssue } from "./issue.ts";

/** One problem in a document, worded for people. */
export interface Problem {
  /** from the root of the document */
  path: PropertyKey[];
  /** line of the key or of the table around it, from 1 */
  line: number;
  message: string;
}

/** Most problems that one error lists. */
const PROBLEMS_SHOWN = 10;
/** Most problems that are looked up: a hostile file may contain a hundred thousand. */
const PROBLEMS_MAX = 200;

/**
 * Checks a document against a schema.
 *
 * @param code code of the thrown error, such as `profile.invalid`
 * @throws {SbxError} `code`: with one line per problem, `file:line: path: problem`
 */
export function checkToml<S extends z.ZodType>(document: TomlDocument, schema: S, code: string): z.output<S> {
  refuseReservedKey(document, code);
  const { success, data, error } = schema.safeParse(document.value);
  if (success) return data;
  throw problemError(document, problemsOf(error, schema, document), code);
}

/** Refuses a key `__proto__`: schemas drop it in silence, and with it a rule or a server of that name. */
function refuseReservedKey(document: TomlDocument, code: string): void {
  // The key may be written with escapes. Most files have neither, and need no look at every key.
  if (!/__proto__|\\[uU]00/.test(document.text)) return;
  const reserved = document.keys.find(({ path }) => path.includes("__proto__"));
  if (!reserved) return;
  const { path, line } = reserved;
  throw problemError(
    document,
    [{ path, line, message: "the key __proto__ is reserved; use another name" }],
    code,
  );
}

/** Problems of a failed check, in the order of their lines. */
export function problemsOf(error: z.ZodError, schema: z.ZodType, document: TomlDocument): Problem[] {
  const found = error.issues.flatMap((issue) => describeIssue(issue, schema)).slice(0, PROBLEMS_MAX);
  return found
    .map(({ path, message }) => ({ path, line: document.positionOf(path).line, message }))
    .sort((a, b) => a.line - b.line);
}

/** Builds one error that lists the problems, as `file:line: path: problem`. */
export function problemError(document: TomlDocument, problems: Problem[], code: string): SbxError {
  const lines = problems.slice(0, PROBLEMS_SHOWN).map(({ path, line, message }) =>
    `${document.path}:${line}: ${path.length ? `${pathText(path)}: ` : ""}${message}`
  );
  const more = problems.length - lines.length;
  if (more > 0) lines.push(`… and ${more} more`);
  return new SbxError(code, lines.join("\n"), { hint: "correct the file at that line" });
}

/** Formats a path as `mcp.github.args[0]`, quoting segments where necessary. */
export function pathText(path: readonly PropertyKey[]): string {
  return path.map((segment, index) => {
    if (typeof segment === "number") return `[${segment}]`;
    const text = String(segment);
    return (index ? "." : "") + (/^[A-Za-z0-9_-]+$/.test(text) ? text : JSON.stringify(text));
  }).join("");
}
