/**
 * Parts of events that rules read, so that bytes that hide such a part can be refused
 * (docs/design/contracts/05-policy.md §5, "Guards").
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { environment } from "./cel.ts";
import type { CompiledRule } from "./compile.ts";
import { ALL_TYPES, typesOf } from "./condition.ts";
import { DEFAULT_RULES } from "./defaults.ts";
import { chainOf } from "./field.ts";
import type { Rule } from "./rule.ts";

/**
 * True when a rule tests or rewrites a part of events; a built-in rule reads nothing.
 *
 * @param part a family (`model`), which a rule also reads by selecting its event types, or a path (`http.request.body`)
 */
export function readsPart({ rule, types }: CompiledRule, part: string): boolean {
  if (DEFAULT_RULES.includes(rule)) return false;
  const isFamily = !part.includes(".");
  if (isFamily && (types & typesOf(`${part}.`)) !== 0 && (types !== ALL_TYPES || selectsFamily(rule))) {
    return true;
  }
  if (rule.rewrite?.some(({ path }) => isWithin(path, part))) return true;
  // Reading the syntax tree is slow for thousands of rules; a rule that reads the part has its last name in
  // the text.
  if (!rule.match.includes(part.slice(part.lastIndexOf(".") + 1))) return false;
  return chainsIn(environment.parse(rule.match).ast).some((path) => isWithin(path, part));
}

/** Fields whose values distinguish families. */
const KINDS = ["common.event_type", "common.source_engine"];

/**
 * True for a rule that distinguishes families by more than its event types: by a prefix, or by the engine.
 */
function selectsFamily({ match }: Rule): boolean {
  return KINDS.some((path) => match.includes(path.slice("common.".length))) &&
    chainsIn(environment.parse(match).ast).some((path) => KINDS.includes(path));
}

/** True for a path of a part of events, such as a field of an object. */
export function isWithin(path: string, part: string): boolean {
  return path === part || path.startsWith(`${part}.`);
}

/** Every chain of names in an expression, such as `http.request.host`. */
export function chainsIn(node: unknown): string[] {
  if (Array.isArray(node)) return node.flatMap(chainsIn);
  if (node === null || typeof node !== "object" || !("op" in node)) return [];
  const chain = chainOf(node as ASTNode);
  return chain ? [chain.join(".")] : chainsIn((node as ASTNode).args);
}
