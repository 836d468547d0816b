import { SbxError } from "../../base/error/mod.ts";
import { type CompiledRule, compileRule } from "./compile.ts";
import { DEFAULT_RULES } from "./defaults.ts";
import { Policy } from "./policy.ts";
import { type Rule, ruleLabel } from "./rule.ts";
import { LAYERS, RULES_MAX } from "./rule_term.ts";

/** Maximum broken rules listed in one error. */
const PROBLEMS_SHOWN = 10;

/**
 * Compiles rules of every layer and the built-in defaults into one policy.
 *
 * @param corp the rules that corp wrote, in any layer
 * @throws {SbxError} `policy.invalid`: with file and line of up to ten broken rules
 */
export function compilePolicy(
  rules: readonly Rule[],
  corp: readonly Rule[] = rules.filter(({ layer }) => layer === "corp"),
): Policy {
  if (rules.length > RULES_MAX) {
    throw new SbxError(
      "policy.invalid",
      `the policy has ${rules.length} rules, the limit is ${RULES_MAX}`,
    );
  }
  const replacedIds = new Set(rules.filter(({ layer }) => layer === "default").map(({ id }) => id));
  const problems: string[] = [];
  const rulesByKey = new Map<string, Rule>();
  const compiled: CompiledRule[] = [];
  for (const rule of [...rules, ...DEFAULT_RULES.filter(({ id }) => !replacedIds.has(id))]) {
    const key = `${LAYERS.indexOf(rule.layer)} ${rule.id}`;
    const twin = rulesByKey.get(key);
    if (twin) {
      problems.push(`${ruleLabel(rule)} is defined twice, first at ${twin.file ?? "?"}:${twin.line ?? "?"}`);
    }
    rulesByKey.set(key, rule);
    try {
      compiled.push(compileRule(rule));
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      problems.push(error.message);
    }
  }
  if (problems.length) {
    const more = problems.length - PROBLEMS_SHOWN;
    throw new SbxError(
      "policy.invalid",
      problems.slice(0, PROBLEMS_SHOWN).join("\n") + (more > 0 ? `\n… and ${more} more` : ""),
      { hint: "run sbx-admin policy check FILE to check rules before use" },
    );
  }
  return new Policy(compiled, new Set(corp));
}
