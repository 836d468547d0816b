import type { ASTNode } from "@marcbachmann/cel-js";
import { SbxError } from "../../base/error/mod.ts";
import { environment, nestedEnvironment } from "./cel.ts";
import {
  alternativesOf,
  clausesOf,
  type Condition,
  conditionOf,
  conditionText,
  masksOf,
  type Probe,
} from "./condition.ts";
import { MatchError } from "./field.ts";
import type { FlatEvent } from "./flat.ts";
import { lower } from "./lower.ts";
import { compileRewrites, type Rewrite } from "./rewrite.ts";
import { MATCH_MAX, type Rule, ruleLabel } from "./rule.ts";

/** Runs an expression on an event. @throws whatever the expression runs into */
export type Program = (event: FlatEvent) => unknown;

/** One conjunct of a rule. */
export interface Clause {
  /** as people read it */
  text: string;
  /** the first field that it tests */
  path: string;
  program: Program;
}

/** A rule that is ready to run. */
export class CompiledRule {
  #program?: Program;
  #clauses?: Clause[];

  constructor(
    readonly rule: Rule,
    /** its place among all rules of the policy; set when the policy is put together */
    public order: number,
    /** CEL over flat variables */
    readonly text: string,
    /** every field that it mentions */
    readonly paths: string[],
    /** event types on which it can match */
    readonly types: number,
    /** ways to look it up */
    readonly alternatives: Probe[][],
    readonly rewrites: Rewrite[],
  ) {}

  /** Parsed on first use: of many rules few are ever run. */
  get program(): Program {
    return this.#program ??= environment.parse(this.text) as Program;
  }

  get clauses(): Clause[] {
    return this.#clauses ??= clausesOf(conditionOf(environment.parse(this.rule.match).ast)).map(
      compileClause,
    );
  }
}

function compileClause(clause: Condition): Clause {
  const text = conditionText(clause);
  const { text: lowered, fields } = lower(environment.parse(text).ast);
  return { text, path: [...fields][0] ?? "", program: environment.parse(lowered) as Program };
}

/**
 * Compiles one rule.
 *
 * @throws SbxError `policy.invalid` with file, line and what was probably meant
 */
export function compileRule(rule: Rule): CompiledRule {
  try {
    const { text, paths, condition } = compileMatch(rule.match);
    const { yes } = masksOf(condition);
    return new CompiledRule(rule, 0, text, paths, yes, alternativesOf(condition), compileRewrites(rule));
  } catch (error) {
    if (!(error instanceof MatchError)) throw error;
    throw new SbxError("policy.invalid", `${place(rule, error.at)}: ${error.message}`, {
      cause: error,
      hint: "docs/reference/event-fields.md lists the fields of each family",
    });
  }
}

/** Checks an expression and lowers it. @throws MatchError */
export function compileMatch(match: string): { text: string; paths: string[]; condition: Condition } {
  if (match.length > MATCH_MAX) throw new MatchError(`the expression is longer than ${MATCH_MAX} characters`);
  const ast = parse(match);
  const { text, fields } = lowerBounded(ast);
  const checked = environment.check(text);
  if (!checked.valid) throw typeError(match, checked.error);
  if (checked.type !== "bool" && checked.type !== "dyn") {
    throw new MatchError(`the expression is of type ${checked.type}; a rule needs true or false`);
  }
  return { text, paths: [...fields], condition: conditionOf(ast) };
}

/** A chain of operators can be longer than the stack is deep. */
function lowerBounded(ast: ASTNode) {
  try {
    return lower(ast);
  } catch (error) {
    if (error instanceof RangeError) throw new MatchError("the expression is nested too deep");
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

/** A type error at its place in what was written: the lowered text has other offsets. */
function typeError(match: string, error: unknown): MatchError {
  const { valid, error: original } = nestedEnvironment().check(match);
  return valid
    ? new MatchError(celMessage(error))
    : new MatchError(celMessage(original), celOffset(original));
}

/** What the library says is wrong, in one line and without our own names. */
export function celMessage(error: unknown): string {
  if (error instanceof RangeError) return "the expression is nested too deep";
  const text = (error as { summary?: string }).summary ?? (error as Error).message;
  return text.split("\n")[0].replaceAll(/(\w)__(\w)/g, "$1.$2").replaceAll("__", "");
}

function celOffset(error: unknown): number {
  return (error as { range?: { start: number } }).range?.start ?? 0;
}

/** `file:line: rule "id"`, of the line of the expression in which the offset lies. */
function place(rule: Rule, at: number): string {
  const line = (rule.match_line ?? rule.line ?? 1) + rule.match.slice(0, at).split("\n").length - 1;
  return ruleLabel({ ...rule, line });
}
