/** A profile rule that is written and not saved: its mistakes, and the rules with it. */
import { SbxError } from "../../base/error/mod.ts";
import { compileMatch, compileRule } from "../engine/compile.ts";
import { MatchError } from "../engine/field.ts";
import type { Rule } from "../engine/rule.ts";
import type { Lint } from "./lint.ts";
import { ruleOf } from "./read.ts";
import { rulesSchema, type RuleTable } from "./schema.ts";

/** An unsaved rule, new or in place of one with its id. */
export interface RuleDraft {
  rule_id: string;
  rule: RuleTable;
}

/** The rules of a profile's file with a draft among them. */
export function withDraft(rules: readonly Rule[], { rule_id, rule }: RuleDraft): Rule[] {
  const isSame = ({ id, layer }: Rule) => layer === "profile" && id === rule_id;
  const { file, line } = rules.find(isSame) ?? {};
  return [...rules.filter((each) => !isSame(each)), ruleOf("profile", rule_id, rule, { file, line })];
}

/** Why a draft cannot be saved, as a remark of the code `invalid`; `undefined` where it can. */
export function draftProblem({ rule_id, rule }: RuleDraft): Lint | undefined {
  const { error } = rulesSchema("profile").safeParse({ [rule_id]: rule });
  if (error) return problemOf(rule_id, error.issues[0].message);
  try {
    compileMatch(rule.match);
    compileRule(ruleOf("profile", rule_id, rule));
  } catch (error) {
    if (error instanceof MatchError) return { ...problemOf(rule_id, error.message), at: error.at };
    if (error instanceof SbxError && error.cause instanceof MatchError) {
      return problemOf(rule_id, error.cause.message);
    }
    throw error;
  }
}

function problemOf(rule_id: string, message: string): Lint {
  return { code: "invalid", severity: "error", rule_id, layer: "profile", message };
}
