import type { Event, PolicyContext } from "../../event/mod.ts";
import { type CompiledRule, compileMatch } from "../engine/compile.ts";
import type { Condition } from "../engine/condition.ts";
import { isPassedThrough, PassthroughGuard } from "../engine/passthrough.ts";
import { matchOf, type Rule } from "../engine/rule.ts";
import { eventOf, holds } from "./witness.ts";

const HOST = "http.request.host";
const PORT = "http.request.port";
const SCHEME = "http.request.scheme";

/** A rule of corp that a rule which passes TLS uninspected would blind, with the connection. */
export interface Blinded {
  by: Rule;
  connection: PolicyContext;
}

/** Finds a host that a rule passes uninspected, and whose content corp's rules read: the rule has no effect there. */
export function findBlinded(
  { rule, rewrites, program }: CompiledRule,
  condition: Condition,
  guard: PassthroughGuard,
): Blinded | undefined {
  const passes = rewrites.some(({ apply }) =>
    isPassedThrough(apply(connectionTo("a.example", 443) as Event))
  );
  if (!passes || guard.rules.length === 0) return undefined;
  const named = valuesIn(condition, HOST);
  const corp = guard.rules.flatMap((each) => valuesIn(compileMatch(matchOf(each.rule)).condition, HOST));
  const [port = 443] = valuesIn(condition, PORT);
  for (const host of named.length > 0 ? [...named, ...corp] : [...corp, undefined]) {
    const connection = connectionTo(host, port);
    if (host !== undefined && !holds(program, connection)) continue;
    const by = guard.blinded(rule, connection as Event);
    if (by) return { by, connection };
  }
}

/** Connections of any protocol that a rule allows, and a rule whose content they keep from being read. */
export interface Unread {
  connection: PolicyContext;
  by?: Rule;
}

/**
 * Finds connections of any protocol that a rule allows by naming them; `undefined` for a rule that names none, or holds
 * them to a protocol.
 *
 * @param rules those of the policy, without the built-in ones
 */
export function findUnread(
  { rule, program }: CompiledRule,
  condition: Condition,
  rules: readonly CompiledRule[],
): Unread | undefined {
  if (rule.action !== "allow" || rule.protocol !== undefined) return undefined;
  const names = [...valuesIn(condition, "http.request.method"), ...valuesIn(condition, SCHEME)];
  if (!names.includes("CONNECT") && !names.includes("tcp")) return undefined;
  const others = rules.filter((each) => each.rule !== rule);
  const guard = new PassthroughGuard(others, new Set(others.map((each) => each.rule)));
  const hosts = [condition, ...others.map((each) => each.condition)].flatMap((each) => valuesIn(each, HOST));
  const [port = 5432] = valuesIn(condition, PORT);
  let first: Unread | undefined;
  for (const host of [...hosts, "a.example"]) {
    const connection = connectionTo(host, port, "tcp");
    if (!holds(program, connection)) continue;
    const by = guard.blinded(rule, connection as Event);
    if (by) return { connection, by };
    first ??= { connection };
  }
  return first;
}

function connectionTo(host: unknown, port: unknown, scheme = "https"): PolicyContext {
  const fields: [string, unknown][] = [
    ["http.request.method", "CONNECT"],
    [SCHEME, scheme],
    [PORT, port],
  ];
  if (host !== undefined) fields.push([HOST, host]);
  return eventOf("http.request", new Map(fields));
}

/** Values of a field that a condition names; of a suffix, a value with it. */
function valuesIn(condition: Condition, field: string): (string | number)[] {
  switch (condition.kind) {
    case "and":
    case "or":
      return condition.parts.flatMap((part) => valuesIn(part, field));
    case "test":
      return condition.probes.filter(({ path, op }) => path === field && (op === "equals" || op === "suffix"))
        .flatMap(({ values }) => values)
        .map((value) => typeof value === "string" ? value.replace(/^\./, "www.") : value);
  }
  return [];
}
