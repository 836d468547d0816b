/** Rules put into and taken out of a TOML file, for the API and the desktop. Loads zod. */
import { SbxError } from "../../base/error/mod.ts";
import { removeTable, setKey, type TomlDocument, type TomlValue } from "../../toml/mod.ts";
import { RULE_ID, type RuleTable } from "./schema.ts";

/** Keys in the order in which they are written. */
const KEYS = [
  "name",
  "action",
  "match",
  "enabled",
  "priority",
  "detection_level",
  "reason",
  "rewrite",
] as const;

/**
 * The file with the rule `[profiles.rules.<id>]`, in place of one that it has. What is written is not yet compiled:
 * read it with `parseRules` and `compilePolicy` before it is saved.
 *
 * @throws SbxError `policy.invalid` for an id that cannot be one
 */
export function withRule(document: TomlDocument, id: string, rule: RuleTable): TomlDocument {
  if (!RULE_ID.test(id)) {
    throw new SbxError("policy.invalid", `"${id}" cannot be the id of a rule`, {
      hint: "a rule id has letters, digits, _ . and -",
    });
  }
  const table = ["profiles", "rules", id];
  let now = removeTable(document, table);
  for (const key of KEYS) {
    const value = rule[key];
    // What is as it would be anyway is not written.
    if (value === undefined || (key === "enabled" && value === true)) continue;
    now = setKey(now, table, key, value as TomlValue);
  }
  return now;
}

/** The file without a rule. @throws SbxError `policy.rule.not_found` */
export function withoutRule(document: TomlDocument, id: string): TomlDocument {
  const now = removeTable(document, ["profiles", "rules", id]);
  if (now.text === document.text) {
    throw new SbxError("policy.rule.not_found", `${document.path} has no profile rule "${id}"`, {
      hint: "only rules of the profile's own file can be changed here",
    });
  }
  return now;
}
