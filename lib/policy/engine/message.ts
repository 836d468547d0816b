/**
 * What rules read of messages of gRPC (docs/design/contracts/05-policy.md §5, "gRPC"): their fields are known
 * to the descriptors of a profile, and to no catalogue.
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { environment } from "./cel.ts";
import { type Key, MatchError } from "./field.ts";
import { matchOf, type Rule } from "./rule.ts";

/** Field with the fields of a message. */
export const MESSAGE = "http.request.grpc.message";

/** A read of a message: its steps from the message on, and its place in the expression. */
export interface MessageRead {
  steps: Key[];
  at: number;
}

/** Every read of a message in the match of a rule that compiles. A step that is no literal ends its read. */
export function messageReads(rule: Rule): MessageRead[] {
  return readsIn(matchOf(rule));
}

/** True for an expression that reads a message by name; `has(http.request)` does not. */
export function readsMessage(match: string): boolean {
  return readsIn(match).length > 0;
}

function readsIn(match: string): MessageRead[] {
  if (!match.includes("message")) return [];
  const reads: MessageRead[] = [];
  collect(environment.parse(match).ast, reads);
  return reads;
}

/** Refuses rules that could never see a message. @throws {MatchError} */
export function requireMessageReader({ action, layer, match }: Rule): void {
  if (action !== "observe" && layer !== "corp" || !readsMessage(match)) return;
  if (layer === "corp") {
    throw new MatchError(`a rule of corp must not read ${MESSAGE}: descriptors belong to a profile`);
  }
  if (action === "observe") {
    throw new MatchError(
      `a rule with action "observe" must not read ${MESSAGE}: the record does not hold it`,
    );
  }
}

function collect(node: unknown, reads: MessageRead[]): void {
  if (Array.isArray(node)) {
    for (const each of node) collect(each, reads);
    return;
  }
  if (!isNode(node)) return;
  const steps = stepsOf(node);
  if (steps && isOfMessage(steps)) {
    reads.push({ steps: steps.slice(MESSAGE.split(".").length), at: node.start });
    return;
  }
  collect(node.args, reads);
}

function isNode(value: unknown): value is ASTNode {
  return typeof value === "object" && value !== null && "op" in value && "args" in value;
}

/** Steps of a chain `a.b["c"][0]` from its name on; `undefined` for any other expression. */
function stepsOf(node: ASTNode): Key[] | undefined {
  if (node.op === "id") return [node.args];
  if (node.op === ".") {
    const steps = stepsOf(node.args[0]);
    return steps && [...steps, node.args[1]];
  }
  if (node.op !== "[]") return undefined;
  const [container, index] = node.args;
  const steps = stepsOf(container);
  const key = index.op === "value" ? index.args : undefined;
  if (typeof key === "string") return steps && [...steps, key];
  return typeof key === "bigint" ? steps && [...steps, Number(key)] : undefined;
}

function isOfMessage(steps: readonly Key[]): boolean {
  const names = MESSAGE.split(".");
  return steps.length >= names.length && names.every((name, at) => steps[at] === name);
}
