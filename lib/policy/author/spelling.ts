/**
 * Suspicious literals of rules: spellings that no event has, so that their tests never match, and texts that
 * match more than they appear to (docs/design/contracts/05-policy.md §5).
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { canonicalHost } from "../../base/address/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import type { Condition, Probe } from "../engine/condition.ts";
import { chainOf } from "../engine/field.ts";
import type { PolicyContext } from "../../event/mod.ts";
import type { Program } from "../engine/compile.ts";
import { holds, sampleOf, witnessOf } from "./witness.ts";

const HEADERS = new Set(["http.request.headers", "http.response.headers"]);
const METHODS = new Set(["GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE", "CONNECT"]);

/** Finds the tests of a condition, also within negations, that no event passes because of their spelling. */
export function* findMisspelled(condition: Condition): Generator<string> {
  switch (condition.kind) {
    case "and":
    case "or":
      for (const part of condition.parts) yield* findMisspelled(part);
      return;
    case "not":
      return yield* findMisspelled(condition.part);
    case "test":
      for (const { path, op, values } of condition.probes) {
        for (const value of values) {
          const spelled = typeof value === "string" ? spellingOf(path, op, value) : undefined;
          if (spelled === undefined || spelled === value) continue;
          yield `${path} never has "${value}" in it` + (spelled === "" ? "" : `; write "${spelled}"`);
        }
      }
      for (const name of headerNames(condition.node)) {
        if (name === name.toLowerCase()) continue;
        yield `names of headers are in lower case, never "${name}"; write "${name.toLowerCase()}"`;
      }
  }
}

/**
 * The spelling that events have; empty for a value that no field has,
 * `undefined` where every spelling occurs.
 */
function spellingOf(path: string, op: Probe["op"], value: string): string | undefined {
  switch (path) {
    case "http.request.host":
    case "dns.request.qname":
      if (op === "equals") {
        return canonicalHost(value) ?? (path === "http.request.host" ? "" : value.toLowerCase());
      }
      return op === "suffix" ? value.toLowerCase().replace(/\.$/, "") : value.toLowerCase();
    case "http.request.method":
      return op === "equals" && METHODS.has(value.toUpperCase()) ? value.toUpperCase() : undefined;
    case "http.request.path":
      return (op === "equals" || op === "prefix") && value.startsWith("/")
        ? canonicalPath(value).path ?? ""
        : undefined;
  }
}

/** Literal names of headers in an expression: `headers.Name`, `headers["Name"]`, `"Name" in headers`. */
function headerNames(node: unknown): string[] {
  if (Array.isArray(node)) return node.flatMap(headerNames);
  if (typeof node !== "object" || node === null || !("op" in node)) return [];
  const { op, args } = node as ASTNode & { args: ASTNode[] };
  const names: string[] = [];
  if (op === ".") {
    const chain = chainOf(node as ASTNode);
    if (chain && HEADERS.has(chain.slice(0, 3).join(".")) && chain.length > 3) names.push(chain[3]);
  } else if (op === "[]" && isHeaders(args[0])) names.push(...textOf(args[1]));
  else if (op === "in" && isHeaders(args[1])) names.push(...textOf(args[0]));
  return [...names, ...headerNames(args)];
}

function isHeaders(node: ASTNode): boolean {
  return HEADERS.has(chainOf(node)?.join(".") ?? "");
}

function textOf(node: ASTNode): string[] {
  return node.op === "value" && typeof node.args === "string" ? [node.args] : [];
}

/** Test broader than it looks, with an event that shows it. */
interface BroadTest {
  message: string;
  witness: PolicyContext;
}

/** Host name fields: a name that merely contains, starts or ends with the text may belong to someone else. */
const HOSTS = new Set(["http.request.host", "dns.request.qname"]);
const EVIL = "attacker.example";

/**
 * Finds broad tests in a condition outside negations, where a broad test makes the rule match less, not more.
 */
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
