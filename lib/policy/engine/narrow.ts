/** Rules of a project file (docs/design/contracts/04-profiles.md §4): they take away, and never allow. */
import type { NarrowingRules } from "../author/schema.ts";
import type { Rule } from "./rule.ts";

/** Name of a project file. */
export const PROJECT_FILE = ".sbx.toml";

/** Between corp's rules, which decide first, and the profile's. */
const PRIORITY = 0;

/** The rules in the form that the engine takes. The prefix keeps their ids apart from the profile's. */
export function narrowing(rules: NarrowingRules): Rule[] {
  return rules.map(({ id, name, action, match, reason, line }) => ({
    id: `project.${id}`,
    name: name ?? id,
    layer: "profile",
    narrows: true,
    priority: PRIORITY,
    enabled: true,
    action,
    match,
    ...reason !== undefined && { reason },
    file: PROJECT_FILE,
    ...line !== undefined && { line },
  }));
}
