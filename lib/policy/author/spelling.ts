/**
 * Literals in spellings that no event has (docs/design/contracts/05-policy.md §5): tests with them never
 * match.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { canonicalHost } from "../../base/address/mod.ts";
import { canonicalPath } from "../../base/url/mod.ts";
import type { Condition, Probe } from "../engine/condition.ts";
import { chainOf } from "../engine/field.ts";

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

/** The spelling that events have; empty for a value that no field has, `undefined` where every spelling occurs. */
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
