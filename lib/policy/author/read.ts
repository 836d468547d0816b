/** Reads rules from TOML. Loads zod: what runs rules takes them as plain data from `mod.ts`. */
import { SbxError } from "../../base/error/mod.ts";
import { checkToml, parseToml, type TomlDocument } from "../../toml/mod.ts";
import { type Layer, PRIORITY_DEFAULT, type Rule } from "../engine/rule.ts";
import { RuleFileSchema, type RuleTable } from "./schema.ts";

/** Largest rule file, in bytes. */
export const RULE_FILE_MAX = 32 * 1024 * 1024;

/** Where the tables of a layer stand in a file. */
const TABLES: Record<Layer, string[]> = {
  corp: ["corp", "rules"],
  profile: ["profiles", "rules"],
  default: ["default"],
};

/**
 * Reads the text of one rule file.
 *
 * @param file names it in messages and decision records
 * @param trusted layers that this file may speak for; a profile's file has no say in corp's
 * @throws SbxError `policy.invalid` or `toml.invalid` with file, line and what was probably meant
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
        `${document.placeOf(TABLES[layer])}: this file must not hold [${TABLES[layer].join(".")}.*] rules`,
        { hint: "corp rules belong to corp.toml and to the files that it names" },
      );
    }
    return rulesOf(document, layer, TABLES[layer], rules ?? {});
  });
}

/** Rules of tables that were already checked, such as those of a profile.toml or a corp.toml. */
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

/** One rule of its table. */
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

/** Lines of every rule in one pass: looking each of many thousands up alone would not end. */
function linesOf(
  document: TomlDocument,
  at: readonly string[],
): Map<string, { line: number; match?: number }> {
  const lines = new Map<string, { line: number; match?: number }>();
  for (const { path, line, valueStart } of document.keys) {
    if (path.length <= at.length || at.some((name, index) => path[index] !== name)) continue;
    const id = String(path[at.length]);
    const known = lines.get(id) ?? { line };
    if (path.length === at.length + 2 && path[at.length + 1] === "match") {
      // A line break right after the opening quotes is no part of the text.
      known.match = line + (/^("""|''')\r?\n/.test(document.text.slice(valueStart, valueStart + 5)) ? 1 : 0);
    }
    lines.set(id, known);
  }
  return lines;
}

/**
 * Reads a rule file.
 *
 * @throws SbxError `policy.not_found`, `policy.invalid` when it is no UTF-8 or too large, or what {@linkcode parseRules} throws
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
    throw new SbxError("policy.not_found", `the rule file ${path} cannot be read`, {
      cause: error,
      hint: "check its path: --rules or --corp of the command, or rule_files of the profile or of corp.toml",
    });
  }
  let text: string;
  try {
    text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
  } catch (error) {
    throw new SbxError("policy.invalid", `${path} is not UTF-8 text`, { cause: error });
  }
  return parseRules(text, path, trusted);
}
