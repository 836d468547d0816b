/** A rule that is written in a form. */
import type { RuleDraft, RuleTable } from "../../api/routes.ts";

/** Id of a new rule before it has one. */
const UNNAMED = "new-rule";

/** A rule to begin with; of a new one, the id may be changed. */
export interface Subject {
  rule_id?: string;
  rule?: RuleTable;
}

/** The rule of a form. @throws {SyntaxError} when the rewrites are not JSON */
export function draftOf(element: HTMLFormElement, match: string, subject: Subject): RuleDraft {
  const form = new FormData(element);
  const word = (name: string) => String(form.get(name) ?? "").trim() || undefined;
  const number = (name: string) => word(name) === undefined ? undefined : Number(word(name));
  return {
    rule_id: subject.rule_id ?? word("id") ?? UNNAMED,
    rule: {
      name: word("name"),
      action: form.get("action") as RuleTable["action"],
      match,
      enabled: subject.rule?.enabled ?? true,
      priority: number("priority"),
      detection_level: word("detection_level") as RuleTable["detection_level"],
      reason: word("reason"),
      ask_timeout: number("ask_timeout"),
      protocol: word("protocol") as RuleTable["protocol"],
      rewrite: word("rewrite") === undefined ? undefined : JSON.parse(word("rewrite")!),
    },
  };
}
