import type { ASTNode } from "@marcbachmann/cel-js";
import { SbxError } from "../../base/error/mod.ts";
import { createNestedEnvironment, environment } from "./cel.ts";
import { alternativesOf, type Condition, conditionOf, masksOf, type Probe } from "./condition.ts";
import { type FlatEvent, MatchError } from "./field.ts";
import { lower } from "./lower.ts";
import { compileRewrites, type Rewrite } from "./rewrite.ts";
import { matchOf, type Rule, ruleLabel } from "./rule.ts";
import { MATCH_MAX } from "./rule_term.ts";

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
    let compiled = compileMatch(rule.match);
    if (rule.protocol !== undefined) compiled = compileMatch(matchOf(rule));
    const { text, paths, condition } = compiled;
    const { yes } = masksOf(condition);
    return new CompiledRule(rule, 0, text, paths, yes, alternativesOf(condition), compileRewrites(rule));
  } catch (error) {
    if (!(error instanceof MatchError)) throw error;
    throw new SbxError("policy.invalid", `${placeOf(rule, error.at)}: ${error.message}`, {
      cause: error,
      hint: "docs/reference/event-fields.md lists the fields of each family",
    });
  }
}

/** Checks and lowers an expression. @throws {MatchError} */
export function compileMatch(match: string): { text: string; paths: string[]; condition: Condition } {
  if (match.length > MATCH_MAX) throw new MatchError(`the expression is longer than ${MATCH_MAX} characters`);
  const ast = parse(match);
  const { text, fields } = lowerBounded(ast);
  const result = environment.check(text);
  if (!result.valid) throw typeError(match, result.error);
  if (result.type !== "bool" && result.type !== "dyn") {
    throw new MatchError(`the expression has type ${result.type}; a rule needs bool`);
  }
  return { text, paths: [...fields], condition: conditionOf(ast) };
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
function placeOf(rule: Rule, at: number): string {
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

  /** Text of a node. The parser leaves grouping parentheses at either end out of a node: they are added again. */
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
