/** Reads, adds and removes rules in TOML. Loads zod; the engine takes rules as plain data. */
import { SbxError } from "../../base/error/mod.ts";
import {
  appendTable,
  checkToml,
  parseToml,
  removeTable,
  type TomlDocument,
  type TomlValue,
} from "../../base/toml/mod.ts";
import type { Rule } from "../engine/rule.ts";
import { type Layer, PRIORITY_DEFAULT } from "../engine/rule_term.ts";
import { RULE_ID, RuleFileSchema, type RuleTable } from "./schema.ts";

/** Maximum size of a rule file, in `bytes`. */
export const RULE_FILE_MAX = 32 * 1024 * 1024;

/** Path of each layer's tables in a file. */
const TABLES: Record<Layer, string[]> = {
  corp: ["corp", "rules"],
  profile: ["profiles", "rules"],
  default: ["default"],
};

/**
 * Parses the text of one rule file.
 *
 * @param file file name for messages and decision records
 * @param trusted layers allowed in this file; a profile's file may not contain corp rules
 * @throws {SbxError} `policy.invalid` or `toml.invalid`: with file, line and a suggestion
 */
export function parseRules(
  text: string,
  file: string,
  trusted: readonly Layer[] = ["corp", "profile", "default"],
): Rule[] {
  const document = parseToml(text, file);
  const tables = checkToml(document, RuleFileSchema, "policy.invalid");
  const byLayer: [Layer, Record<string, RuleTable> | undefined][] = [
    ["corp", tables.corp?.rules],
    ["profile", tables.profiles?.rules],
    ["default", tables.default],
  ];
  return byLayer.flatMap(([layer, rules]) => {
    if (rules && !trusted.includes(layer)) {
      throw new SbxError(
        "policy.invalid",
        `${document.placeOf(TABLES[layer])}: this file must not contain [${TABLES[layer].join(".")}.*] rules`,
        { hint: "corp rules belong in corp.toml and in the rule files it names" },
      );
    }
    return rulesOf(document, layer, TABLES[layer], rules ?? {});
  });
}

/** Rules from checked tables, such as the tables of a profile.toml or corp.toml. */
export function rulesOf(
  document: TomlDocument,
  layer: Layer,
  at: readonly string[],
  rules: Record<string, RuleTable>,
): Rule[] {
  const lines = linesOf(document, at);
  return Object.entries(rules).map(([id, table]) =>
    ruleOf(layer, id, table, {
      file: document.path,
      line: lines.get(id)?.line ?? document.positionOf([...at, id]).line,
      match_line: lines.get(id)?.match ?? document.positionOf([...at, id, "match"]).line,
    })
  );
}

/** Rule from its checked table. */
export function ruleOf(
  layer: Layer,
  id: string,
  table: RuleTable,
  place: Pick<Rule, "file" | "line" | "match_line"> = {},
): Rule {
  return {
    ...table,
    id,
    layer,
    name: table.name ?? id,
    priority: table.priority ?? PRIORITY_DEFAULT[layer],
    ...place,
  };
}

/** Lines of every rule, found in one pass: a lookup per rule is too slow for thousands of rules. */
function linesOf(
  document: TomlDocument,
  at: readonly string[],
): Map<string, { line: number; match?: number }> {
  const lines = new Map<string, { line: number; match?: number }>();
  for (const { path, line, valueStart } of document.keys) {
    if (path.length <= at.length || at.some((name, index) => path[index] !== name)) continue;
    const id = String(path[at.length]);
    const position = lines.get(id) ?? { line };
    if (path.length === at.length + 2 && path[at.length + 1] === "match") {
      // A line break right after the opening quotes is not part of the text.
      position.match = line +
        (/^("""|''')\r?\n/.test(document.text.slice(valueStart, valueStart + 5)) ? 1 : 0);
    }
    lines.set(id, position);
  }
  return lines;
}

/**
 * Reads a rule file.
 *
 * @throws {SbxError} `policy.not_found`; `policy.invalid`: for a file not in UTF-8 or too large; and the
 * errors of {@linkcode parseRules}
 */
export async function readRules(path: string, trusted?: readonly Layer[]): Promise<Rule[]> {
  let bytes: Uint8Array;
  try {
    const { size } = await Deno.stat(path);
    if (size > RULE_FILE_MAX) {
      throw new SbxError("policy.invalid", `${path} is larger than ${RULE_FILE_MAX} bytes`);
    }
    bytes = await Deno.readFile(path);
  } catch (error) {
    if (error instanceof SbxError) throw error;
    throw new SbxError("policy.not_found", `cannot read the rule file ${path}`, {
      cause: error,
      hint: "check its path in --rules or --corp, or in the rule files of the profile or corp.toml",
    });
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new SbxError("policy.invalid", `${path} is not valid UTF-8`, { cause: error });
  }
  return parseRules(text, path, trusted);
}

/** Keys in output order. */
const KEYS = [
  "name",
  "action",
  "match",
  "enabled",
  "priority",
  "detection_level",
  "reason",
  "ask_timeout",
  "protocol",
  "rewrite",
] as const;

/**
 * Returns the file with the rule `[profiles.rules.<id>]` added or replaced. The rule is not compiled: check
 * the result with `parseRules` and `compilePolicy` before saving.
 *
 * @throws {SbxError} `policy.invalid`: for an invalid id; `toml.edit.conflict`
 */
export async function withRule(document: TomlDocument, id: string, rule: RuleTable): Promise<TomlDocument> {
  if (!RULE_ID.test(id)) {
    throw new SbxError("policy.invalid", `invalid rule id "${id}"`, {
      hint: "use letters, digits, _ . and -, beginning with a letter or digit, at most 128 characters",
    });
  }
  const table = ["profiles", "rules", id];
  const fields: Record<string, TomlValue> = {};
  for (const key of KEYS) {
    const value = rule[key];
    // Omits default values.
    if (value === undefined || (key === "enabled" && value === true)) continue;
    fields[key] = value as TomlValue;
  }
  return await appendTable(removeTable(document, table), table, fields);
}

/** Returns the file without a rule. @throws {SbxError} `policy.rule.not_found` */
export function withoutRule(document: TomlDocument, id: string): TomlDocument {
  const edited = removeTable(document, ["profiles", "rules", id]);
  if (edited.text === document.text) {
    throw new SbxError("policy.rule.not_found", `${document.path} has no profile rule "${id}"`, {
      hint: "only rules in profile.toml can be changed here",
    });
  }
  return edited;
}
