/** Every problem of a file of rules at once, each with its line and column. */
import type { z } from "zod";
import { SbxError } from "../../base/error/mod.ts";
import {
  isTable,
  parseToml,
  pathText,
  type Position,
  problemsOf,
  type TomlDocument,
} from "../../base/toml/mod.ts";
import { compileRule } from "../engine/compile.ts";
import { MatchError } from "../engine/field.ts";
import type { Rule } from "../engine/rule.ts";
import { type Layer, LAYERS } from "../engine/rule_term.ts";
import { ruleOf } from "./read.ts";
import { priorityProblem, RULE_ID, RuleFileSchema, RuleSchema } from "./schema.ts";

/** One problem of a file. */
export interface FileProblem extends Position {
  file: string;
  /** the rule that has it */
  rule_id?: string;
  message: string;
}

export interface FileCheck {
  problems: FileProblem[];
  /** rules without a problem of their own */
  rules: Rule[];
}

/** Most lines with a syntax error that are looked for; each costs a reading of the file. */
const SYNTAX_ERRORS_MAX = 50;

/** Tables of rules in any file that has them. */
const TABLES: [Layer, string[]][] = [
  ["corp", ["corp", "rules"]],
  ["profile", ["profiles", "rules"]],
  ["default", ["default"]],
];

/**
 * Finds the problems of a file of rules. One of them hides none of the others: a table whose syntax is wrong
 * is left out, and a rule is compiled whatever another one has.
 *
 * @param schema of the whole file: a rule file's, or a profile's or corp.toml's
 */
export function checkRuleText(
  text: string,
  file: string,
  schema: z.ZodType = RuleFileSchema,
): FileCheck {
  const { document, problems, left_out } = readAround(text, file);
  if (!document) return { problems, rules: [] };
  const parsed = schema.safeParse(document.value);
  if (parsed.error) {
    for (const { path, message } of problemsOf(parsed.error, schema, document)) {
      // Left out with its table, and so not missing.
      if (message === "is missing" && left_out.some((table) => isWithin(path, table))) continue;
      const at = TABLES.find(([, table]) => table.every((name, index) => path[index] === name))?.[1];
      problems.push({
        file,
        ...document.positionOf(path),
        ...(at && path.length > at.length && { rule_id: String(path[at.length]) }),
        message: `${path.length ? `${pathText(path)}: ` : ""}${message}`,
      });
    }
  }
  const { rules, problems: found } = compileEach(document);
  const all = new Map([...problems, ...found].map((problem) => [formatProblem(problem), problem]));
  return { problems: [...all.values()].sort(byPlace), rules };
}

/** Formats a problem as `file:line:column: message`. */
export function formatProblem({ file, line, column, message }: FileProblem): string {
  return `${file}:${line}:${column}: ${message}`;
}

function byPlace(a: Position, b: Position): number {
  return a.line - b.line || a.column - b.column;
}

/** True for a path of a table, or of a table around it. */
function isWithin(path: readonly PropertyKey[], table: readonly string[]): boolean {
  return table.every((name, at) => at >= path.length || name === path[at]);
}

interface Readable {
  /** absent: even without the lines that are wrong it is no TOML */
  document?: TomlDocument;
  problems: FileProblem[];
  /** paths of the tables that are left out */
  left_out: string[][];
}

/**
 * Reads a file without the tables whose syntax is wrong. Their lines stay, empty, so that
 * the others keep their numbers.
 */
function readAround(text: string, file: string): Readable {
  const lines = text.split("\n");
  const problems: FileProblem[] = [];
  const left_out: string[][] = [];
  for (let tries = 0; tries <= SYNTAX_ERRORS_MAX; tries++) {
    try {
      return { document: parseToml(lines.join("\n"), file), problems, left_out };
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      const { line, column, message } = placeIn(error.message, file);
      problems.push({ file, line, column, message });
      const [from, to] = tableAround(lines, Math.min(line, lines.length) - 1);
      const header = /^\s*\[+([^\]#]+)\]/.exec(lines[from])?.[1];
      if (header !== undefined) {
        left_out.push(header.split(".").map((name) => name.trim().replaceAll('"', "")));
      }
      if (lines.slice(from, to).every((each) => each === "")) break;
      lines.fill("", from, to);
    }
  }
  return { problems, left_out };
}

/** Splits the message of an error of {@linkcode parseToml}. */
function placeIn(text: string, file: string): Position & { message: string } {
  const [, line = "1", column = "1", message = text] =
    /^:(\d+):(\d+): ([^]*)$/.exec(text.startsWith(file) ? text.slice(file.length) : "") ?? [];
  return { line: Number(line), column: Number(column), message };
}

/** Lines of the table that has a line: from its header to the next one. */
function tableAround(lines: readonly string[], at: number): [from: number, to: number] {
  const isHeader = (line: string) => /^\s*\[/.test(line);
  let from = at;
  while (from > 0 && !isHeader(lines[from])) from--;
  let to = at + 1;
  while (to < lines.length && !isHeader(lines[to])) to++;
  return [from, to];
}

/** Compiles each rule that has the form of one, whatever the rest of the file is. */
function compileEach(document: TomlDocument): FileCheck {
  const rules: Rule[] = [];
  const problems: FileProblem[] = [];
  const file = document.path;
  for (const [layer, at] of TABLES) {
    const tables = at.reduce<unknown>((here, name) => isTable(here) ? here[name] : undefined, document.value);
    for (const [id, table] of isTable(tables) ? Object.entries(tables) : []) {
      const { success, data } = RuleSchema.safeParse(table);
      if (!success || !RULE_ID.test(id)) continue;
      const { line } = document.positionOf([...at, id]);
      const match = document.positionOf([...at, id, "match"]);
      // The schema looks at priorities only where nothing else is wrong with a rule of the layer.
      const late = data.priority === undefined ? undefined : priorityProblem(layer, data.priority);
      if (late !== undefined) {
        const path = [...at, id, "priority"];
        const message = `${pathText(path)}: ${late}`;
        problems.push({ file, ...document.positionOf(path), rule_id: id, message });
        continue;
      }
      const rule = ruleOf(layer, id, data, { file, line, match_line: match.line });
      try {
        compileRule(rule);
        rules.push(rule);
      } catch (error) {
        const { cause } = error as SbxError;
        if (!(cause instanceof MatchError)) throw error;
        problems.push({
          file,
          ...positionIn(document, [...at, id, "match"], cause.at),
          rule_id: id,
          message: `${layer} rule "${id}": ${cause.message}`,
        });
      }
    }
  }
  rules.sort((a, b) => LAYERS.indexOf(a.layer) - LAYERS.indexOf(b.layer));
  return { problems, rules };
}

/** Position of a character of a text value, as its file has it. */
function positionIn(document: TomlDocument, path: readonly string[], at: number): Position {
  const key = document.find(path);
  if (!key) return document.positionOf(path);
  const offset = offsetIn(document.text, key.valueStart, at);
  const before = document.text.slice(0, offset);
  const line = before.lastIndexOf("\n");
  return { line: before.split("\n").length, column: offset - line };
}

/** Offset in a TOML text of a character of the string that begins at `start`. */
function offsetIn(text: string, start: number, at: number): number {
  const quotes = /^("""|'''|"|')/.exec(text.slice(start, start + 3))?.[0];
  if (quotes === undefined) return start;
  let offset = start + quotes.length;
  if (quotes.length === 3) offset += /^\r?\n/.exec(text.slice(offset, offset + 2))?.[0].length ?? 0;
  if (quotes[0] === "'") return offset + at;
  for (let passed = 0; passed < at && offset < text.length;) {
    const escape = /^\\(?:u[0-9A-Fa-f]{4}|U[0-9A-Fa-f]{8}|[ \t]*\r?\n\s*|[^])/.exec(
      text.slice(offset, offset + 1024),
    );
    offset += escape?.[0].length ?? 1;
    // A line break after a backslash is no character of the value.
    if (!escape || !/\n/.test(escape[0])) passed++;
  }
  return offset;
}
