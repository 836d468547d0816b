/** Probable mistakes in a set of rules, each with an example event. */
import { nearest, suggestion } from "../../base/text/mod.ts";
import { catalogue, type Event, type PolicyContext } from "../../event/mod.ts";
import { type CompiledRule, compileMatch } from "../engine/compile.ts";
import { ALL_TYPES, type Condition, masksOf, type Probe, TYPES, typesOf } from "../engine/condition.ts";
import { HELD, NOT_HELD, restrictsFiles, restrictsGuest } from "../engine/guest.ts";
import type { Policy } from "../engine/policy.ts";
import { matchOf, type Rule } from "../engine/rule.ts";
import { findBroadTests, findMisspelled } from "./spelling.ts";
import { openOf } from "./open.ts";
import { eventOf, holds, implies, witnessOf } from "./witness.ts";
import { isPassedThrough, PassthroughGuard } from "../engine/guard.ts";

export type LintCode =
  | "invalid"
  | "unreachable"
  | "hidden-block"
  | "redundant"
  | "contradiction"
  | "broad"
  | "always-true"
  | "never-true"
  | "other-families"
  | "passthrough"
  | "raw-connection"
  | "guest-rewrite"
  | "guest-file"
  | "spelling"
  | "open";

/** One lint finding. */
export interface Lint {
  code: LintCode;
  /** a note is nothing to correct: it says how far an allow reaches */
  severity: "error" | "warning" | "note";
  rule_id: string;
  layer: string;
  file?: string;
  line?: number;
  /** offset in the match expression, of a draft that does not compile */
  at?: number;
  /** the other rule, for findings about two */
  other_rule_id?: string;
  message: string;
  /** example event */
  witness?: PolicyContext;
}

/** Maximum pairs of rules compared, shared among the rules. */
const PAIRS_MAX = 2_000_000;
/** Most rules whose reach is noted; each allow costs several evaluations. */
const OPEN_MAX = 1000;

/**
 * Lints the rules of a policy, except the built-in ones.
 *
 * @param notes also how far each allow reaches
 */
export function lintPolicy(policy: Policy, { notes = false } = {}): Lint[] {
  const analyzed = policy.rules.map(analyze);
  const rules = analyzed.filter(({ compiled }) =>
    compiled.rule.file !== undefined || compiled.rule.layer !== "default"
  );
  const observers = policy.observers.rules.map(analyze);
  const limit = Math.max(50, Math.floor(PAIRS_MAX / Math.max(1, rules.length)));
  return [
    ...rules.flatMap((rule, at) => [
      ...notes && at < OPEN_MAX ? lintOpen(rule, policy) : [],
      ...lintRule(rule),
      ...lintSpelling(rule),
      ...lintPassthrough(rule, policy),
      ...lintRawConnection(rule, rules),
      ...lintGuestRewrite(rule),
      ...lintGuestFile(rule),
      ...lintPairs(rule, rules.slice(Math.max(0, at - limit), at)),
    ]),
    // They decide nothing, so none hides another.
    ...observers.flatMap((rule) => [...lintRule(rule), ...lintSpelling(rule)]),
  ];
}

function analyze(compiled: CompiledRule): AnalyzedRule {
  const { condition } = compileMatch(matchOf(compiled.rule));
  return { compiled, condition, witness: witnessOf(condition, compiled.program) };
}

/** Rule with its condition and an event that matches it. */
interface AnalyzedRule {
  compiled: CompiledRule;
  condition: Condition;
  witness?: PolicyContext;
}

/** Lints the literals of a rule. */
function lintSpelling({ compiled: { rule }, condition }: AnalyzedRule): Lint[] {
  return [...new Set(findMisspelled(condition))].map((message) =>
    createLint("spelling", "warning", rule, message)
  );
}

/** Lints a single rule. */
function* lintRule({ compiled, condition, witness }: AnalyzedRule): Generator<Lint> {
  const { rule, program } = compiled;
  const contradiction = findContradiction(condition);
  if (contradiction) {
    yield createLint("never-true", "error", rule, contradiction);
    return;
  }
  const matchesEveryType = TYPES.every((type) => holds(program, eventOf(type)));
  if (matchesEveryType && !witnessOf(condition, program, false)) {
    const message = rule.action === "observe"
      ? "its condition is always true: it makes a finding of every event"
      : "its condition is always true: it decides every event not decided by an earlier rule";
    yield createLint("always-true", "warning", rule, message, { witness });
  } else yield* lintFamilies({ compiled, condition });
  for (const { message, witness: event } of findBroadTests(condition, program)) {
    yield createLint("broad", "warning", rule, message, { witness: event });
  }
}

/** Says of an allow how far it reaches, as `sbx learn` says it of its own. */
function* lintOpen({ compiled, condition, witness }: AnalyzedRule, policy: Policy): Generator<Lint> {
  const open = openOf(compiled, condition, witness, policy);
  if (!open) return;
  const details = { witness: open.witness };
  yield createLint("open", "note", compiled.rule, `also allows: ${open.words}`, details);
}

/** Finds a rule that names fields of one family and, by a negation, matches events of others. */
function* lintFamilies({ compiled: { rule, program, paths }, condition }: AnalyzedRule): Generator<Lint> {
  const intended = paths.reduce((mask, path) => {
    const types = typesOf(path);
    return types === ALL_TYPES ? mask : mask | types;
  }, 0);
  if (intended === 0) return;
  const { yes } = masksOf(condition);
  const other = TYPES.find((type, bit) => yes & ~intended & 1 << bit && holds(program, eventOf(type)));
  if (!other) return;
  const families = [
    ...new Set(TYPES.filter((_, bit) => intended & 1 << bit).map((type) => type.split(".")[0])),
  ];
  const message = `it also matches ${other} events, which have no ${families.join(" or ")} fields: ` +
    `add has(${families[0]}.${families[0] === "file" || families[0] === "process" ? "activity" : "request"})`;
  yield createLint("other-families", "warning", rule, message, { witness: eventOf(other) });
}

/** Finds a rule that passes TLS uninspected where corp's rules read its content. */
function* lintPassthrough({ compiled, condition }: AnalyzedRule, { passthrough }: Policy): Generator<Lint> {
  const blinded = findBlinded(compiled, condition, passthrough);
  if (!blinded) return;
  const message =
    `it passes TLS uninspected without effect where ${describeRule(blinded.by)} reads the content: ` +
    "only corp may pass such hosts";
  yield createLint("passthrough", "warning", compiled.rule, message, {
    other: blinded.by,
    witness: blinded.connection,
  });
}

/** Finds an allow of connections whose protocol it does not name: rules on HTTP have no effect in them. */
function* lintRawConnection(
  { compiled, condition }: AnalyzedRule,
  rules: readonly AnalyzedRule[],
): Generator<Lint> {
  const unread = findUnread(compiled, condition, rules.map((each) => each.compiled));
  if (!unread) return;
  const { connection, by } = unread;
  const loss = by ? `${describeRule(by)} has no effect in them` : "rules on HTTP have no effect in them";
  const message = `it allows connections of any protocol, which are not read: ${loss}; ` +
    `name the protocol that it is for, such as protocol = "postgres"`;
  yield createLint("raw-connection", "warning", compiled.rule, message, { other: by, witness: connection });
}

/** Finds a rewrite of what other programs of the guest start or do: that can be blocked, and not changed. */
function* lintGuestRewrite({ compiled, witness }: AnalyzedRule): Generator<Lint> {
  if (compiled.rule.action !== "rewrite") return;
  const message = restrictsGuest(compiled, "process.exec")
    ? 'it blocks programs that other programs of a VM start, which cannot be rewritten: add common.actor == "host"'
    : restrictsGuest(compiled, "file.activity") &&
      "operations on files cannot be rewritten: use block or ask";
  if (message) yield createLint("guest-rewrite", "error", compiled.rule, message, { witness });
}

/** Finds a rule on file operations of guest programs that do not wait for a decision. */
function* lintGuestFile({ compiled, witness }: AnalyzedRule): Generator<Lint> {
  const { rule } = compiled;
  if (rule.action !== "ask" && rule.action !== "block") return;
  if (restrictsFiles(compiled, HELD) || !restrictsFiles(compiled, NOT_HELD)) return;
  const message =
    "it is never enforced: programs of a VM wait where they open files to read or to write them, " +
    "and create, delete and rename files without waiting; a detection can report it";
  yield createLint("guest-file", "warning", rule, message, { witness });
}

/** Lints a rule against the rules evaluated before it. */
function* lintPairs(
  { compiled, condition, witness }: AnalyzedRule,
  earlier: readonly AnalyzedRule[],
): Generator<Lint> {
  const { rule } = compiled;
  for (const { compiled: other, condition: before } of earlier) {
    if (other.rule.action === "rewrite" || !(other.types & compiled.types)) continue;
    if (rule.action !== "rewrite" && implies(condition, before)) {
      yield createCoveredLint(rule, other.rule, witness);
      return;
    }
    if (!isContradiction(rule, other.rule)) continue;
    const both: Condition = { kind: "and", parts: [before, condition] };
    const event = sharedEvent(both, compiled, other, witness);
    if (event) {
      const message = `it contradicts ${
        describeRule(other.rule)
      } at the same priority ${rule.priority}: ${other.rule.action} wins over ${rule.action}`;
      yield createLint("contradiction", "warning", rule, message, { other: other.rule, witness: event });
    }
  }
}

function createCoveredLint(rule: Rule, other: Rule, witness: PolicyContext | undefined): Lint {
  const details = { other, witness };
  if (rule.action === other.action) {
    return createLint(
      "redundant",
      "warning",
      rule,
      `${describeRule(other)} already decides ${rule.action} for every event it matches`,
      details,
    );
  }
  if (rule.action === "block" && other.action === "allow") {
    return createLint(
      "hidden-block",
      "error",
      rule,
      `it never blocks: ${describeRule(other)} comes first and allows every event it matches`,
      details,
    );
  }
  return createLint(
    "unreachable",
    "error",
    rule,
    `it never decides: ${
      describeRule(other)
    } (${other.action}) comes first and matches every event it matches`,
    details,
  );
}

/**
 * True for an allow against a block or ask at the same priority. A block against an ask is
 * no contradiction: both restrict.
 */
function isContradiction(rule: Rule, other: Rule): boolean {
  return rule.priority === other.priority && rule.layer === other.layer && rule.action !== other.action &&
    [rule, other].some(({ action }) => action === "allow") &&
    [rule, other].some(({ action }) => action === "block" || action === "ask");
}

/** Finds an event that both rules match. */
function sharedEvent(
  both: Condition,
  a: CompiledRule,
  b: CompiledRule,
  witness: PolicyContext | undefined,
): PolicyContext | undefined {
  if (witness && holds(b.program, witness)) return witness;
  return witnessOf(both, (flat) => a.program(flat) === true && b.program(flat) === true);
}

/** Explains why a condition holds on no event; `undefined` if that is not evident. */
function findContradiction(condition: Condition): string | undefined {
  for (const part of condition.kind === "and" ? condition.parts : [condition]) {
    const problem = part.kind === "test" ? part.probes.map(findUnknownValue).find((text) => text) : undefined;
    if (problem) return problem;
  }
  if (masksOf(condition).yes === 0) {
    return "it can match no event: it requires fields of two families";
  }
  if (condition.kind !== "and") return undefined;
  const valuesByPath = new Map<string, Set<unknown>>();
  for (const part of condition.parts) {
    if (part.kind !== "test") continue;
    for (const { path, op, values } of part.probes) {
      if (op !== "equals") continue;
      const previous = valuesByPath.get(path);
      const remaining = new Set(previous ? values.filter((value) => previous.has(value)) : values);
      if (!remaining.size) return `it can match no event: ${path} cannot have two values`;
      valuesByPath.set(path, remaining);
    }
  }
}

/** Explains a comparison with values that a field never has. */
function findUnknownValue({ path, op, values }: Probe): string | undefined {
  const possible = catalogue.get(path)?.values;
  if (!possible || op !== "equals") return undefined;
  const impossible = values.filter((value) => !possible.includes(value as string));
  if (impossible.length < values.length) return undefined;
  const near = nearest(String(impossible[0]), possible);
  return `it can match no event: ${path} is never "${impossible[0]}"${
    near ? `; ${suggestion(near)}` : `; expected one of ${possible.join(", ")}`
  }`;
}

function describeRule({ id, layer, file, line }: Rule): string {
  return `${layer} rule "${id}"${file ? ` (${file}:${line})` : ""}`;
}

function createLint(
  code: LintCode,
  severity: Lint["severity"],
  { id, layer, file, line }: Rule,
  message: string,
  { other, witness }: { other?: Rule; witness?: PolicyContext } = {},
): Lint {
  return {
    code,
    severity,
    rule_id: id,
    layer,
    ...(file !== undefined && { file }),
    ...(line !== undefined && { line }),
    ...(other && { other_rule_id: other.id }),
    message,
    ...(witness && { witness }),
  };
}

const HOST = "http.request.host";
const PORT = "http.request.port";
const SCHEME = "http.request.scheme";

/** A rule of corp that a rule which passes TLS uninspected would blind, with the connection. */
interface Blinded {
  by: Rule;
  connection: PolicyContext;
}

/**
 * Finds a host that a rule passes uninspected, and whose content corp's rules
 * read: the rule has no effect there.
 */
function findBlinded(
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
interface Unread {
  connection: PolicyContext;
  by?: Rule;
}

/**
 * Finds connections of any protocol that a rule allows by naming them; `undefined` for a rule that names
 * none, or holds them to a protocol.
 *
 * @param rules the policy's rules, without the built-in ones
 */
function findUnread(
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
