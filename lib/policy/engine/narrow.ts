/** Rules of a project file (docs/design/contracts/04-profiles.md §4): they take away, and never allow. */
import { SbxError } from "../../base/error/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { NarrowingRules } from "../author/schema.ts";
import type { Rule } from "./rule.ts";
import { NARROWING_ID_MAX, NARROWING_MAX } from "./rule_term.ts";

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
    ...saysOf(reason ?? name),
    file: PROJECT_FILE,
    ...line !== undefined && { line },
  }));
}

/** Words of a repository, which a person reads in a question: marked, and in quotes that they cannot end. */
function saysOf(words: string | undefined): Pick<Rule, "reason"> {
  return words === undefined ? {} : { reason: `${PROJECT_FILE} says ${JSON.stringify(words)}` };
}

/** True for the rule id of a project file, in decision records. */
export function isNarrowing(ruleId: string): boolean {
  return ruleId.startsWith("project.");
}

/**
 * The rules of several project files, such as of a copy's source and of its own folder: all hold. Ids that
 * two files chose get a number; a rule that is there already is not added.
 *
 * @throws {SbxError} `project.invalid`: more rules than a VM takes
 */
export function joinNarrowing(...files: NarrowingRules[]): NarrowingRules {
  const joined: NarrowingRules = [];
  const [ids, known] = [new Set<string>(), new Set<string>()];
  for (const { id, line, ...rule } of files.flat()) {
    const content = canonicalJson(rule);
    if (known.has(content)) continue;
    let free = id;
    for (let number = 2; ids.has(free); number++) {
      const end = `.${number}`;
      free = id.slice(0, NARROWING_ID_MAX - end.length) + end;
    }
    known.add(content);
    ids.add(free);
    joined.push({ ...rule, id: free, ...line !== undefined && { line } });
  }
  if (joined.length <= NARROWING_MAX) return joined;
  throw new SbxError(
    "project.invalid",
    `the project files of one VM have ${joined.length} rules, the limit is ${NARROWING_MAX}`,
    { hint: `remove rules from ${PROJECT_FILE} of its folders` },
  );
}
