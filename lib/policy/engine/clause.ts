/** Conjuncts of a match expression, as their author wrote them. */
import type { ASTNode } from "@marcbachmann/cel-js";

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
