/** Adds and removes rules in a TOML file, for the API and the desktop. Loads zod. */
import { SbxError } from "../../base/error/mod.ts";
import { appendTable, removeTable, type TomlDocument, type TomlValue } from "../../base/toml/mod.ts";
import { RULE_ID, type RuleTable } from "./schema.ts";

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
 * Returns the file with the rule `[profiles.rules.<id>]` added or replaced. The rule is not compiled: check the
 * result with `parseRules` and `compilePolicy` before saving.
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
