/** The events that a lasting answer covers, as a condition of a rule. */
import { type Event, familyOf, valueAt } from "../../event/mod.ts";
import { quote } from "../engine/literal.ts";
import { COVERED } from "./scope.ts";

/** CEL for the events that an answer covers. */
export function coveredMatch(event: Event): string {
  const { event_type } = event.common;
  const tests = COVERED[familyOf(event_type)].map((path) => testOf(path, valueAt(event, path)));
  return [`common.event_type == ${quote(event_type)}`, ...tests, ...gitTests(event)].join(" && ");
}

function testOf(path: string, value: unknown): string {
  return value === undefined ? `!has(${path})` : `${path} == ${literalOf(value)}`;
}

function gitTests({ http }: Event): string[] {
  const git = http?.request.git;
  if (!git) return [];
  const refs = git.updates.map(({ kind, ref }) =>
    `update.kind == ${quote(kind)} && update.ref == ${quote(ref)}`
  );
  return [
    `http.request.git.service == ${quote(git.service)}`,
    `http.request.git.updates.all(update, ${refs.length ? refs.join(" || ") : "false"})`,
  ];
}

function literalOf(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(literalOf).join(", ")}]`;
  return typeof value === "string" ? quote(value) : String(value);
}
