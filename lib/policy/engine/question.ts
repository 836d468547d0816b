/** Questions of rules about earlier events: their arguments, which are literals. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { nearest, suggestion } from "../../base/text/mod.ts";
import { catalogue, type EventType } from "../../event/mod.ts";
import { CONTACT_FIELDS } from "./contact.ts";
import { type Counter, HISTORY_WINDOW_MAX_MS, KNOWN_SCOPES, type KnownScope } from "./history.ts";
import { MatchError } from "./field.ts";

/** A question whose condition is not compiled yet. */
export interface HistoryQuestion extends Omit<Counter, "program"> {
  match?: string;
  /** offset in the expression */
  at: number;
}

/** Forms of the questions, for messages. */
const FORMS: Record<Counter["op"], string> = {
  count: 'history.count("http.request", "http.request.method == \\"POST\\"", "10m")',
  sum: 'history.sum("http.request", "http.request.bytes", "true", "1h")',
  seen: 'history.seen("http.request.host", "24h")',
  known: 'history.known("http.request.host", "profile")',
};
const TYPES = catalogue.get("common.event_type")!.values as EventType[];
const UNITS: Record<string, number> = { s: 1000, m: 60_000, h: 3_600_000 };

/** Reads a question. @throws {MatchError} */
export function questionOf(node: ASTNode & { op: "rcall" }): HistoryQuestion {
  const [name, , nodes] = node.args;
  if (!Object.hasOwn(FORMS, name)) {
    throw new MatchError(`history has ${Object.keys(FORMS).join(", ")}, and no ${name}`, node.start);
  }
  const op = name as Counter["op"];
  const words = nodes.map((each) =>
    each.op === "value" && typeof each.args === "string" ? each.args : undefined
  );
  const [type, field, match, window] = op === "count"
    ? [words[0], undefined, words[1], words[2]]
    : op === "sum"
    ? words
    : [undefined, words[0], undefined, words[1]];
  const count = { count: 3, sum: 4, seen: 2, known: 2 }[op];
  if (nodes.length !== count || words.includes(undefined)) {
    throw new MatchError(`history.${op} takes ${count} literal texts, such as ${FORMS[op]}`, node.start);
  }
  if (op === "known") return knownOf(field!, window!, node.start);
  if (op !== "seen" && !TYPES.includes(type as EventType)) {
    const near = nearest(type!, TYPES);
    throw new MatchError(`unknown event type ${type}${near ? `; ${suggestion(near)}` : ""}`, node.start);
  }
  if (field !== undefined) requireField(op, field, type, node.start);
  const windowMs = windowOf(window!, node.start);
  const key = JSON.stringify([op, type ?? null, field ?? null, match ?? null, windowMs]);
  return {
    key,
    op,
    ...(type !== undefined && { type: type as EventType }),
    ...(field !== undefined && { field }),
    ...(match !== undefined && { match }),
    windowMs,
    at: node.start,
  };
}

/** @throws {MatchError} */
function knownOf(field: string, scope: string, at: number): HistoryQuestion {
  if (!(CONTACT_FIELDS as readonly string[]).includes(field)) {
    throw new MatchError(
      `history.known is about ${CONTACT_FIELDS.join(" and ")}, and not about ${field}`,
      at,
    );
  }
  if (!(KNOWN_SCOPES as readonly string[]).includes(scope)) {
    throw new MatchError(`history.known asks for ${KNOWN_SCOPES.join(" or ")}, and not for ${scope}`, at);
  }
  const key = JSON.stringify(["known", field, scope]);
  return { key, op: "known", field, scope: scope as KnownScope, windowMs: 0, at };
}

function requireField(op: Counter["op"], field: string, type: string | undefined, at: number): void {
  const found = catalogue.get(field);
  if (!found) throw new MatchError(`unknown field ${field}`, at);
  const family = field.slice(0, field.indexOf("."));
  requireRequest(field, at);
  if (op === "sum" && (found.type !== "number" || !type!.startsWith(`${family}.`))) {
    throw new MatchError(`history.sum needs a number of ${type}, and ${field} is not one`, at);
  }
  if (op === "seen" && (found.type !== "string" && found.type !== "number" || family === "common")) {
    throw new MatchError(
      `history.seen needs a text or number of an event's family, and ${field} is not one`,
      at,
    );
  }
}

/** Events are remembered when they are decided, before their response. @throws {MatchError} */
export function requireRequest(path: string, at: number): void {
  if (path.includes(".response.")) {
    throw new MatchError(`history has requests; ${path} comes later`, at);
  }
}

function windowOf(text: string, at: number): number {
  const [, number, unit] = /^([1-9]\d{0,5})([smh])$/.exec(text) ?? [];
  const ms = Number(number) * UNITS[unit];
  if (ms > 0 && ms <= HISTORY_WINDOW_MAX_MS) return ms;
  throw new MatchError(`the window ${text} must be like "30s", "10m" or "24h", at most 24h`, at);
}
