/** Text tests that match more than they appear to. */
import type { ASTNode } from "@marcbachmann/cel-js";
import type { PolicyContext } from "../../event/mod.ts";
import type { Program } from "../engine/compile.ts";
import type { Condition } from "../engine/condition.ts";
import { chainOf } from "../engine/field.ts";
import { holds, sampleOf, witnessOf } from "./witness.ts";

/** Test broader than it looks, with an event that shows it. */
export interface BroadTest {
  message: string;
  witness: PolicyContext;
}

/** Host name fields: a name that merely contains, starts or ends with the text may belong to someone else. */
const HOSTS = new Set(["http.request.host", "dns.request.qname"]);
const EVIL = "attacker.example";

/** Finds broad tests in a condition outside negations, where a broad test makes the rule match less, not more. */
export function* findBroadTests(condition: Condition, program: Program): Generator<BroadTest> {
  const event = witnessOf(condition, program);
  if (event) yield* searchCondition(condition, event, program);
}

function* searchCondition(
  condition: Condition,
  event: PolicyContext,
  program: Program,
): Generator<BroadTest> {
  if (condition.kind === "and" || condition.kind === "or") {
    for (const part of condition.parts) yield* searchCondition(part, event, program);
  }
  if (condition.kind !== "test" || condition.node.op !== "rcall") return;
  const [name, receiver, [argument]] = condition.node.args as [string, ASTNode, ASTNode[]];
  const path = chainOf(receiver)?.join(".");
  if (!path || argument?.op !== "value" || typeof argument.args !== "string") return;
  for (const [value, message] of suspects(name, path, argument.args)) {
    const witness = withValue(event, path, value);
    if (!holds(program, witness)) continue;
    yield { message: `${message}: it matches ${path} "${value}"`, witness };
    return;
  }
}

/** Values that the author of a test would not expect to match, with the reason. */
function suspects(name: string, path: string, text: string): [value: string, message: string][] {
  if (HOSTS.has(path)) {
    if (name === "contains") {
      return [[`${text}.${EVIL}`, `contains("${text}") matches anywhere in the name; use in_domain()`]];
    }
    if (name === "endsWith" && !text.startsWith(".")) {
      return [[
        `evil${text}`,
        `endsWith("${text}") also matches other names with this ending; use in_domain() or ".${text}"`,
      ]];
    }
    if (name === "startsWith") {
      return [[`${text}.${EVIL}`, `startsWith("${text}") also matches other names with this beginning`]];
    }
    if (name === "matches") return patternSuspects(text);
  }
  if (path === "http.request.url" && name === "startsWith" && /^https?:\/\/[^/]+$/.test(text)) {
    return [[`${text}.${EVIL}/`, `startsWith("${text}") does not end at the host; add a "/"`]];
  }
  if (path === "http.request.url" && name === "contains") {
    return [[
      `https://${EVIL}/?${text}`,
      `contains("${text}") also matches in the path and the query; test http.request.host`,
    ]];
  }
  return [];
}

function patternSuspects(pattern: string): [string, string][] {
  const sample = sampleOf(pattern);
  if (sample === undefined) return [];
  const dotted = sample.replace(".", "x");
  const hasAlternatives = pattern.includes("|");
  const suspects: [boolean, string, string][] = [
    [hasAlternatives || !pattern.endsWith("$"), `${sample}.${EVIL}`, "the pattern has no $ at its end"],
    [hasAlternatives || !pattern.startsWith("^"), `evil${sample}`, "the pattern has no ^ at its beginning"],
    [dotted !== sample, dotted, `"." in the pattern matches any character; write "\\."`],
  ];
  return suspects.filter(([isPossible]) => isPossible).map(([, value, message]) => [value, message]);
}

function withValue(event: PolicyContext, path: string, value: string): PolicyContext {
  const copy = structuredClone(event) as unknown as Record<string, unknown>;
  const keys = path.split(".");
  let here = copy;
  for (const key of keys.slice(0, -1)) here = (here[key] ??= {}) as Record<string, unknown>;
  here[keys.at(-1)!] = value;
  return copy as unknown as PolicyContext;
}
