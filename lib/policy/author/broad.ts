/** Tests of text that match more than they look as if they did. */
import type { ASTNode } from "@marcbachmann/cel-js";
import type { PolicyContext } from "../../event/mod.ts";
import type { Program } from "../engine/compile.ts";
import type { Condition } from "../engine/condition.ts";
import { chainOf } from "../engine/field.ts";
import { holds, sampleOf, witnessOf } from "./witness.ts";

/** A test that is broader than it looks, with an event that shows it. */
export interface Broad {
  message: string;
  witness: PolicyContext;
}

/** Names of machines: what stands before or after a piece of one is someone else's. */
const HOSTS = new Set(["http.request.host", "dns.request.qname"]);
const EVIL = "attacker.example";

/** Broad tests in a condition, outside of negations: what a negation matches too much is let through, not caught. */
export function* broadTests(condition: Condition, program: Program): Generator<Broad> {
  const event = witnessOf(condition, program);
  if (event) yield* within(condition, event, program);
}

function* within(condition: Condition, event: PolicyContext, program: Program): Generator<Broad> {
  if (condition.kind === "and" || condition.kind === "or") {
    for (const part of condition.parts) yield* within(part, event, program);
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

/** Values that the author of a test would not expect it to match. */
function suspects(name: string, path: string, text: string): [value: string, message: string][] {
  if (HOSTS.has(path)) {
    if (name === "contains") {
      return [[`${text}.${EVIL}`, `contains("${text}") looks anywhere in the name; use in_domain()`]];
    }
    if (name === "endsWith" && !text.startsWith(".")) {
      return [[`evil${text}`, `endsWith("${text}") also ends other names; use in_domain() or ".${text}"`]];
    }
    if (name === "startsWith") return [[`${text}.${EVIL}`, `startsWith("${text}") also begins other names`]];
    if (name === "matches") return patternSuspects(text);
  }
  if (path === "http.request.url" && name === "startsWith" && /^https?:\/\/[^/]+$/.test(text)) {
    return [[`${text}.${EVIL}/`, `startsWith("${text}") does not end the host; add a "/"`]];
  }
  if (path === "http.request.url" && name === "contains") {
    return [[
      `https://${EVIL}/?${text}`,
      `contains("${text}") looks in the path and the query too; test http.request.host`,
    ]];
  }
  return [];
}

function patternSuspects(pattern: string): [string, string][] {
  const sample = sampleOf(pattern);
  if (sample === undefined) return [];
  const dotted = sample.replace(".", "x");
  const either = pattern.includes("|");
  const suspects: [boolean, string, string][] = [
    [either || !pattern.endsWith("$"), `${sample}.${EVIL}`, "the pattern has no $ at its end"],
    [either || !pattern.startsWith("^"), `evil${sample}`, "the pattern has no ^ at its beginning"],
    [dotted !== sample, dotted, `a "." in the pattern is any character; write "\\."`],
  ];
  return suspects.filter(([possible]) => possible).map(([, value, message]) => [value, message]);
}

function withValue(event: PolicyContext, path: string, value: string): PolicyContext {
  const copy = structuredClone(event) as unknown as Record<string, unknown>;
  const keys = path.split(".");
  let here = copy;
  for (const key of keys.slice(0, -1)) here = (here[key] ??= {}) as Record<string, unknown>;
  here[keys.at(-1)!] = value;
  return copy as unknown as PolicyContext;
}
