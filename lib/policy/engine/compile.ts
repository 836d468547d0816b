/**
 * Rules compiled from their text: match, condition and typed rewrites (docs/design/contracts/05-policy.md
 * §5).
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { SbxError } from "../../base/error/mod.ts";
import { createNestedEnvironment, environment } from "./cel.ts";
import { alternativesOf, type Condition, conditionOf, masksOf, type Probe, TYPES } from "./condition.ts";
import { type FlatEvent, MatchError } from "./field.ts";
import type { Counter } from "./history.ts";
import { type HistoryQuestion, requireRequest } from "./question.ts";
import { lower } from "./lower.ts";
import { MESSAGE, readsMessage, requireMessageReader } from "./message.ts";
import { matchOf, type RewriteOp, type Rule, ruleLabel } from "./rule.ts";
import { MATCH_MAX } from "./rule_term.ts";
import { canonicalHost } from "../../base/address/mod.ts";
import { isObject } from "../../base/object/mod.ts";
import {
  catalogue,
  type Event,
  fileNameOf,
  type HttpEvent,
  httpPathClass,
  pathClass,
  valueAt,
} from "../../event/mod.ts";
import { compileRegex } from "./regex.ts";

/** Compiled expression. @throws {Error} on an evaluation error */
export type Program = (event: FlatEvent) => unknown;

/** One conjunct of a rule's condition. */
export interface Clause {
  /** CEL text as written */
  text: string;
  /** first field tested */
  path: string;
  program: Program;
}

/** Rule ready to run. */
export class CompiledRule {
  #program?: Program;
  #clauses?: Clause[];

  constructor(
    readonly rule: Rule,
    /** position among all rules of the policy, set by {@linkcode Policy} */
    public order: number,
    /** CEL over flat variables */
    readonly text: string,
    /** every field mentioned */
    readonly paths: string[],
    /** mask of the event types it can match */
    readonly types: number,
    /** probe sets for the index */
    readonly alternatives: Probe[][],
    readonly rewrites: Rewrite[],
    /** questions about earlier events */
    readonly counters: Counter[] = [],
  ) {}

  /** Parsed on first use, since few of many rules ever run. */
  get program(): Program {
    return this.#program ??= environment.parse(this.text) as Program;
  }

  /** Parsed at each use: few rules are asked for it, and not often. */
  get condition(): Condition {
    return conditionOf(environment.parse(matchOf(this.rule)).ast);
  }

  get clauses(): Clause[] {
    return this.#clauses ??= compileClauses(matchOf(this.rule));
  }
}

/** Compiles each conjunct from its parsed form: its text is for people, and is never parsed again. */
function compileClauses(match: string): Clause[] {
  const source = new SourceText(match);
  return conjunctsOf(environment.parse(match).ast).map((node) => {
    const { text, fields } = lower(node);
    return { text: source.of(node), path: [...fields][0] ?? "", program: environment.parse(text) as Program };
  });
}

/**
 * Compiles one rule.
 *
 * @throws {SbxError} `policy.invalid`: with file, line and a suggestion
 */
export function compileRule(rule: Rule): CompiledRule {
  try {
    if (rule.ask_timeout !== undefined && rule.action !== "ask") {
      throw new MatchError(`a rule with action "${rule.action}" must not have ask_timeout`);
    }
    if (rule.protocol !== undefined && rule.action !== "allow" && rule.action !== "ask") {
      throw new MatchError(`a rule with action "${rule.action}" must not have protocol`);
    }
    if (rule.action === "observe" && rule.layer === "default") {
      // It would take the place of the built-in rule of its id, which decides.
      throw new MatchError(
        'a default rule must not have action "observe"; write it as a profile or corp rule',
      );
    }
    let compiled = compileMatch(rule.match);
    if (rule.protocol !== undefined) compiled = compileMatch(matchOf(rule));
    const { text, paths, condition, counters } = compiled;
    requireMessageReader(rule);
    if (rule.action === "observe" && counters.length > 0 && paths.some(isOfResponse)) {
      throw new MatchError(
        'a rule with action "observe" reads a response or asks for history, not both: write two rules',
      );
    }
    const { yes } = masksOf(condition);
    const alternatives = alternativesOf(condition);
    return new CompiledRule(rule, 0, text, paths, yes, alternatives, compileRewrites(rule), counters);
  } catch (error) {
    if (!(error instanceof MatchError)) throw error;
    throw new SbxError("policy.invalid", `${rulePlace(rule, error.at)}: ${error.message}`, {
      cause: error,
      hint: "docs/reference/event-fields.md lists the fields of each family",
    });
  }
}

/** True for a field that is known once the event has its response. */
export function isOfResponse(path: string): boolean {
  return path.includes(".response.");
}

/** Checks and lowers an expression. @throws {MatchError} */
export function compileMatch(
  match: string,
): { text: string; paths: string[]; condition: Condition; counters: Counter[] } {
  if (match.length > MATCH_MAX) throw new MatchError(`the expression is longer than ${MATCH_MAX} characters`);
  const ast = parse(match);
  const { text, fields, questions } = lowerBounded(ast);
  const counters = questions.map((question) => compileQuestion(question, fields));
  const result = environment.check(text);
  if (!result.valid) throw typeError(match, result.error);
  if (result.type !== "bool" && result.type !== "dyn") {
    throw new MatchError(`the expression has type ${result.type}; a rule needs bool`);
  }
  return { text, paths: [...fields], condition: conditionOf(ast), counters };
}

/** @param fields gets the fields that it reads @throws {MatchError} */
function compileQuestion({ match, at, ...question }: HistoryQuestion, fields: Set<string>): Counter {
  if (question.field !== undefined) fields.add(question.field);
  if (question.field === MESSAGE) throw new MatchError(`history holds no ${MESSAGE}`, at);
  if (match === undefined) return question;
  let inner: ReturnType<typeof compileMatch>;
  try {
    inner = compileMatch(match);
  } catch (error) {
    if (!(error instanceof MatchError)) throw error;
    throw new MatchError(`in the condition of history.${question.op}: ${error.message}`, at);
  }
  if (readsMessage(match)) throw new MatchError(`history holds no ${MESSAGE}`, at);
  if (inner.counters.length > 0) throw new MatchError("a condition of history asks for no other history", at);
  for (const path of inner.paths) {
    requireRequest(path, at);
    fields.add(path);
  }
  const { yes } = masksOf(inner.condition);
  if ((yes & 1 << TYPES.indexOf(question.type!)) === 0) {
    throw new MatchError(`the condition of history.${question.op} is never true of ${question.type}`, at);
  }
  return { ...question, program: environment.parse(inner.text) as Program };
}

/** Lowers an expression; a long chain of operators can overflow the stack. @throws {MatchError} */
function lowerBounded(ast: ASTNode) {
  try {
    return lower(ast);
  } catch (error) {
    if (error instanceof RangeError) throw new MatchError("the expression is nested too deeply");
    throw error;
  }
}

function parse(match: string): ASTNode {
  try {
    return environment.parse(match).ast;
  } catch (error) {
    throw new MatchError(celMessage(error), celOffset(error));
  }
}

/** Locates a type error in the original text, since the lowered text has other offsets. */
function typeError(match: string, error: unknown): MatchError {
  const { valid, error: original } = createNestedEnvironment().check(match);
  return valid
    ? new MatchError(celMessage(error))
    : new MatchError(celMessage(original), celOffset(original));
}

/** Message of a library error, in one line and without internal names. */
export function celMessage(error: unknown): string {
  if (error instanceof RangeError) return "the expression is nested too deeply";
  const text = (error as { summary?: string }).summary ?? (error as Error).message;
  return text.split("\n")[0].replaceAll(/(\w)__(\w)/g, "$1.$2").replaceAll("__", "");
}

function celOffset(error: unknown): number {
  return (error as { range?: { start: number } }).range?.start ?? 0;
}

/** Label `file:line: rule "id"`, with the line of the offset in the expression. */
export function rulePlace(rule: Rule, at: number): string {
  const line = (rule.match_line ?? rule.line ?? 1) + rule.match.slice(0, at).split("\n").length - 1;
  return ruleLabel({ ...rule, line });
}

// Conjuncts of a match expression, as their author wrote them.

/** White space with comments, strings as the parser reads them, and parentheses. */
const TOKEN =
  /(?:\s|\/\/[^\n]*)+|"""(?:\\[^]|[^\\])*?"""|'''(?:\\[^]|[^\\])*?'''|"(?:\\[^]|[^"\\])*"|'(?:\\[^]|[^'\\])*'|[()]/g;

/** Operands of the outermost `&&` of an expression. */
export function conjunctsOf(node: ASTNode): ASTNode[] {
  return node.op === "&&" ? node.args.flatMap(conjunctsOf) : [node];
}

/** Text of the nodes of one expression, in one line and without comments; literals stay as they are. */
export class SourceText {
  readonly #match: string;
  /** offsets of each parenthesis and its partner */
  readonly #pairs: [open: number, close: number][] = [];

  constructor(match: string) {
    this.#match = match;
    const open: number[] = [];
    for (const { 0: token, index } of match.matchAll(TOKEN)) {
      if (token === "(") open.push(index);
      else if (token === ")" && open.length) this.#pairs.push([open.pop()!, index]);
    }
  }

  /**
   * Text of a node. The parser leaves grouping parentheses at either end out of a node: they are added again.
   */
  of({ start, end }: ASTNode): string {
    const isInside = (at: number) => at >= start && at < end;
    // Inner pairs come first, so one pass widens the text from inside out.
    for (const [open, close] of this.#pairs) {
      if (isInside(open) === isInside(close)) continue;
      start = Math.min(start, open);
      end = Math.max(end, close + 1);
    }
    return this.#match.slice(start, end).replaceAll(TOKEN, (token) => isBlank(token) ? " " : token).trim();
  }
}

function isBlank(token: string): boolean {
  return /^[\s/]/.test(token);
}

// Typed rewrites of events by rules, on copies.

/** Checked rewrite; `apply` returns the changed event, or the same object without a change. */
export interface Rewrite {
  op: RewriteOp["op"];
  path: string;
  apply(event: Event): Event;
}

/** Fields derived from others; recomputed after a rewrite. */
const DERIVED = new Set([
  "http.request.url",
  "http.request.path_class",
  ...["path_class", "name", "ext"].map((name) => `file.activity.${name}`),
]);
/** Path as the client wrote it; it is not sent. */
const RAW_PATH = "http.request.raw_path";
/** The git operation of a request: read from its path and body. */
const GIT = "http.request.git.";
/** What runs over SSH: read from the command. */
const SSH = "http.request.ssh.";
/** The operation of a request to Amazon: read from its host, head and body. */
const AWS = "http.request.aws.";
/** A call of gRPC: read from the path, the content type and the messages. */
const GRPC = ["http.request.grpc.", "http.response.grpc."];
/** The copy that answered a request, and the address that did; the host sets them. */
const ANSWERED_BY = ["http.response.cache_digest", "http.response.address"];
/** The messages of a WebSocket that is over. */
const MESSAGES = ["http.response.messages", "http.response.messages_missing"];
const HEADERS = ["http.request.headers", "http.response.headers"];
/** Prefix of tool arguments, which are rewritten by name and may have any type. */
const ARGUMENTS = "mcp.request.arguments.";

/** Compiles the rewrites of a rule. @throws {MatchError} for a rewrite that does not fit its field */
export function compileRewrites({ action, rewrite = [] }: Rule): Rewrite[] {
  if (action !== "rewrite") {
    if (rewrite.length) throw new MatchError(`a rule with action "${action}" must not have rewrite`);
    return [];
  }
  if (!rewrite.length) throw new MatchError('a rule with action "rewrite" needs rewrite = [...]');
  return rewrite.map(compileOp);
}

function compileOp(change: RewriteOp): Rewrite {
  switch (change.op) {
    case "strip_header":
      return stripHeader(change);
    case "set":
      return setField(change);
    case "replace":
      return replaceIn(change);
  }
}

function stripHeader({ op, path }: RewriteOp): Rewrite {
  const parent = HEADERS.find((headers) => path.startsWith(`${headers}.`)) ?? HEADERS[0];
  const name = (path.startsWith(`${parent}.`) ? path.slice(parent.length + 1) : path).toLowerCase();
  if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(name)) throw new MatchError(`invalid header name "${path}"`);
  return {
    op,
    path: `${parent}.${name}`,
    apply(event) {
      const headers = valueAt(event, parent) as Record<string, string[]> | undefined;
      const remaining = Object.entries(headers ?? {}).filter(([key]) => key.toLowerCase() !== name);
      if (!headers || remaining.length === Object.keys(headers).length) return event;
      return withValue(event, parent, Object.fromEntries(remaining));
    },
  };
}

function setField({ op, path, value }: RewriteOp): Rewrite {
  const { type, values } = rewritableField(path);
  const valueType = typeof value === "boolean" ? "bool" : typeof value;
  if (value === undefined) throw new MatchError(`set ${path} needs a value`);
  if (type !== "any" && valueType !== type) {
    throw new MatchError(`${path} is a ${type}, the value is a ${valueType}`);
  }
  if (values && !values.includes(value as string)) {
    throw new MatchError(`${path} must be one of ${values.join(", ")}`);
  }
  return {
    op,
    path,
    apply: (event) =>
      valueAt(event, path) === value || !isObject(parentOf(event, path))
        ? event
        : withValue(event, path, value),
  };
}

function replaceIn({ op, path, pattern, value }: RewriteOp): Rewrite {
  const { type } = rewritableField(path);
  if (type !== "string" && type !== "any") {
    throw new MatchError(`${path} is a ${type}; replace needs a string field`);
  }
  if (pattern === undefined) throw new MatchError(`replace in ${path} needs a pattern`);
  if (value !== undefined && typeof value !== "string") {
    throw new MatchError(`replace in ${path} needs a string value`);
  }
  try {
    compileRegex(pattern);
  } catch (error) {
    throw new MatchError(`invalid pattern: ${(error as Error).message}`);
  }
  return {
    op,
    path,
    apply(event) {
      const text = valueAt(event, path);
      if (typeof text !== "string" || !isObject(parentOf(event, path))) return event;
      const changed = compileRegex(pattern).matcher(text).replaceAll(value ?? "");
      return changed === text ? event : withValue(event, path, changed);
    },
  };
}

/** Field that may be rewritten. @throws {MatchError} for any other */
function rewritableField(path: string) {
  const isArgument = path.startsWith(ARGUMENTS) && !path.split(".").includes("");
  const field: { type: string; values?: string[] } | undefined = isArgument
    ? { type: "any" }
    : catalogue.get(path);
  if (!field) throw new MatchError(`unknown field ${path}`);
  if (DERIVED.has(path)) throw new MatchError(`${path} is derived from other fields; rewrite those`);
  if (path === RAW_PATH) {
    throw new MatchError(`${path} holds the bytes that the client sent; rewrite http.request.path`);
  }
  if (ANSWERED_BY.includes(path)) {
    throw new MatchError(`${path} says where the bytes came from; block the request instead`);
  }
  if (MESSAGES.includes(path)) {
    throw new MatchError(`${path} records messages that have passed; block the upgrade instead`);
  }
  if (path.startsWith(GIT)) {
    throw new MatchError(`${path} describes a git operation; block it instead`);
  }
  if (path.startsWith("db.")) {
    throw new MatchError(`${path} describes a statement, which is sent as it is; block it instead`);
  }
  if (path.startsWith(SSH)) {
    throw new MatchError(`"${path}" is read from the command, which is not rewritten`);
  }
  if (path.startsWith("sign.")) {
    throw new MatchError(`${path} describes bytes that are signed as they are; block it instead`);
  }
  if (path.startsWith(AWS)) {
    throw new MatchError(`${path} describes an operation at Amazon; block it instead`);
  }
  if (GRPC.some((prefix) => path.startsWith(prefix))) {
    throw new MatchError(`${path} describes a call, which is sent as it is; block it instead`);
  }
  if (path.startsWith("common.") || path === "schema_version" || path.startsWith("credential.")) {
    throw new MatchError(`${path} describes the event itself and cannot be rewritten`);
  }
  return field;
}

function parentOf(event: Event, path: string): unknown {
  return valueAt(event, path.slice(0, path.lastIndexOf(".")));
}

/** Copies the event with a new value at `path`; objects off the path are shared. */
export function withValue(event: Event, path: string, value: unknown): Event {
  const copy = { ...event } as Record<string, unknown>;
  let here = copy;
  const keys = path.split(".");
  for (const key of keys.slice(0, -1)) here = here[key] = { ...(here[key] as Record<string, unknown>) };
  here[keys.at(-1)!] = value;
  return rederive(copy as unknown as Event, path);
}

/** Recomputes derived fields, so that a rule on the URL sees the new destination. */
function rederive(event: Event, path: string): Event {
  if (path === "file.activity.path" && event.file) {
    const { activity } = event.file;
    const derived = { path_class: pathClass(activity.path), ...fileNameOf(activity.path) };
    return { ...event, file: { activity: { ...activity, ...derived } } };
  }
  if (!event.http || !/^http\.request\.(scheme|host|port|path|query)$/.test(path)) return event;
  const request = { ...event.http.request };
  if (path === "http.request.host") request.host = canonicalHost(request.host) ?? request.host;
  const derived = { ...request, url: urlOf(request), path_class: httpPathClass(request.path ?? "") };
  return { ...event, http: { ...event.http, request: derived } };
}

/** URL of a request; events in tests may lack parts. */
function urlOf(
  { scheme = "https", host = "", port, path = "", query }: Partial<HttpEvent["request"]>,
): string {
  const isDefaultPort = port === undefined || port === (scheme === "https" ? 443 : 80);
  const name = host.includes(":") && !host.startsWith("[") ? `[${host}]` : host;
  return `${scheme}://${name}${isDefaultPort ? "" : `:${port}`}${path}${query ? `?${query}` : ""}`;
}
