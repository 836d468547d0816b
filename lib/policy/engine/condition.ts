/** Boolean structure of a match expression, for an index that avoids running most rules. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue, type EventType } from "../../event/mod.ts";
import { chainOf, fieldOf, strictFields } from "./field.ts";
import { requiredLiterals } from "./regex.ts";

/** Test of one field that the index can look up. */
export interface Probe {
  path: string;
  op: "equals" | "prefix" | "suffix" | "contains";
  values: (string | number)[];
}

/** Boolean expression down to its tests. */
export type Condition =
  | { kind: "and" | "or"; parts: Condition[] }
  | { kind: "not"; part: Condition }
  | { kind: "constant"; value: boolean }
  | {
    kind: "test";
    node: ASTNode;
    /** fields whose absence makes it false */
    strict: string[];
    /** necessary conditions of the test */
    probes: Probe[];
  };

const EVENT_TYPE = "common.event_type";
const NO_SCOPE: ReadonlySet<string> = new Set();

/** Event types by their bit in a mask. */
export const TYPES: readonly EventType[] = catalogue.get(EVENT_TYPE)!.values as EventType[];
/** Mask of every event type. */
export const ALL_TYPES = (1 << TYPES.length) - 1;

/** Mask of the event types with fields of a path's family. */
export function typesOf(path: string): number {
  const family = path.slice(0, path.indexOf("."));
  if (family === "common" || family === "") return ALL_TYPES;
  return TYPES.reduce((mask, type, bit) => type.startsWith(`${family}.`) ? mask | 1 << bit : mask, 0);
}

/** Converts a parsed expression, already checked for unknown fields, to a condition. */
export function conditionOf(node: ASTNode): Condition {
  switch (node.op) {
    case "&&":
    case "||": {
      const kind = node.op === "&&" ? "and" : "or";
      const parts = node.args.map(conditionOf);
      return { kind, parts: parts.flatMap((part) => part.kind === kind ? part.parts : [part]) };
    }
    case "!_":
      return { kind: "not", part: conditionOf(node.args) };
    case "value":
      if (typeof node.args === "boolean") return { kind: "constant", value: node.args };
  }
  return { kind: "test", node, strict: requiredFields(node), probes: probesOf(node) };
}

/** Masks of the event types on which a condition can be true (`yes`) and false (`no`). */
export function masksOf(condition: Condition): { yes: number; no: number } {
  switch (condition.kind) {
    case "constant":
      return condition.value ? { yes: ALL_TYPES, no: 0 } : { yes: 0, no: ALL_TYPES };
    case "not": {
      const { yes, no } = masksOf(condition.part);
      return { yes: no, no: yes };
    }
    case "test":
      return { yes: typesOfTest(condition), no: ALL_TYPES };
  }
  const parts = condition.parts.map(masksOf);
  const all = (side: "yes" | "no") => parts.reduce((mask, part) => mask & part[side], ALL_TYPES);
  const any = (side: "yes" | "no") => parts.reduce((mask, part) => mask | part[side], 0);
  return condition.kind === "and" ? { yes: all("yes"), no: any("no") } : { yes: any("yes"), no: all("no") };
}

/** Maximum alternatives considered for one rule. */
const ALTERNATIVES_MAX = 16;

/**
 * Probe sets that can index a rule: for each set, the rule matches only if at least one probe of the set
 * hits. Empty for a rule that has to run on every event of its types.
 */
export function alternativesOf(condition: Condition): Probe[][] {
  switch (condition.kind) {
    case "test":
      // Event types are selected before any probe.
      return condition.probes.filter(({ path }) => path !== EVENT_TYPE).map((probe) => [probe]);
    case "and":
      return condition.parts.flatMap(alternativesOf).slice(0, ALTERNATIVES_MAX);
    case "or": {
      const best = condition.parts.map((part) =>
        alternativesOf(part).sort((a, b) => weight(a) - weight(b))[0]
      );
      return best.every((probes) => probes !== undefined) ? [best.flat()] : [];
    }
  }
  return [];
}

/** Estimated selectivity of a probe set, lower is better, before counting the rules that share it. */
function weight(probes: Probe[]): number {
  return Math.max(
    ...probes.map(({ path, op, values }) =>
      (catalogue.get(path)?.values ? 100 : 0) + ["equals", "suffix", "prefix", "contains"].indexOf(op) +
      values.length / 1000
    ),
  );
}

function typesOfTest({ node, strict, probes }: Condition & { kind: "test" }): number {
  const [probe] = probes;
  // Of has(http.request), which any field below satisfies, and which names no field.
  const object = node.op === "call" && node.args[0] === "has" ? chainOf(node.args[1][0]) : undefined;
  if (object) return typesOf(`${object.join(".")}.`);
  if (probe?.path === EVENT_TYPE && probe.op === "equals") {
    return TYPES.reduce((mask, type, bit) => probe.values.includes(type) ? mask | 1 << bit : mask, 0);
  }
  return strict.reduce((mask, path) => mask & typesOf(path), ALL_TYPES);
}

/** Fields whose absence makes a test false; for `has(f)`, f itself. */
function requiredFields(node: ASTNode): string[] {
  if (node.op === "call" && node.args[0] === "has") {
    try {
      const field = fieldOf(node.args[1][0], NO_SCOPE);
      return field ? [field.path] : [];
    } catch {
      // has() of an object such as http.request: any field below satisfies it.
      return [];
    }
  }
  return strictFields(node, NO_SCOPE);
}

function probesOf(node: ASTNode): Probe[] {
  switch (node.op) {
    case "==": {
      const [left, right] = node.args;
      return [...equalsProbes(left, right), ...equalsProbes(right, left)];
    }
    case "in": {
      const [left, right] = node.args;
      const path = plainField(left);
      if (!path || right.op !== "list") return [];
      const values = right.args.map(literalOf);
      return values.every((value) => value !== undefined) ? [{ path, op: "equals", values }] : [];
    }
    case "call": {
      const [name, [host, domain]] = node.args;
      const path = name === "in_domain" && host ? plainField(host) : undefined;
      const value = domain && literalOf(domain);
      return path && typeof value === "string" ? [{ path, op: "suffix", values: [value] }] : [];
    }
    case "rcall": {
      const [name, receiver, [argument]] = node.args;
      const path = plainField(receiver);
      const value = argument && literalOf(argument);
      return path && typeof value === "string" ? textProbes(name, path, value) : [];
    }
  }
  return [];
}

/** Minimum length of a `contains` text in the index, in characters: shorter ones occur in too many values. */
export const CONTAINS_MIN = 4;

function textProbes(name: string, path: string, value: string): Probe[] {
  if (name === "startsWith") return [{ path, op: "prefix", values: [value] }];
  if (name === "endsWith") return [{ path, op: "suffix", values: [value] }];
  const texts = name === "contains" ? [value] : name === "matches" ? requiredLiterals(value) : [];
  return texts.filter((text) => text.length >= CONTAINS_MIN)
    .map((text) => ({ path, op: "contains", values: [text] }));
}

function equalsProbes(field: ASTNode, value: ASTNode): Probe[] {
  const path = plainField(field);
  const literal = literalOf(value);
  return path && literal !== undefined ? [{ path, op: "equals", values: [literal] }] : [];
}

/** Path of the string or number field that a node refers to. */
function plainField(node: ASTNode): string | undefined {
  const field = node.op === "." || node.op === "id" ? fieldOf(node, NO_SCOPE) : undefined;
  const type = field && catalogue.get(field.path)?.type;
  return field?.rest.length === 0 && (type === "string" || type === "number") ? field.path : undefined;
}

function literalOf(node: ASTNode): string | number | undefined {
  if (node.op !== "value") return undefined;
  if (typeof node.args === "bigint") {
    const number = Number(node.args);
    return Number.isSafeInteger(number) ? number : undefined;
  }
  return typeof node.args === "string" || typeof node.args === "number" ? node.args : undefined;
}
