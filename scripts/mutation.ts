import { parse } from "@babel/parser";

/** One change of a source text. */
export interface Mutation {
  /** offsets of the text that is replaced */
  start: number;
  end: number;
  /** the replacement */
  text: string;
  /** the replaced text */
  before: string;
  line: number;
}

/** Any node of the syntax tree. */
interface Node {
  type: string;
  start: number;
  end: number;
  loc: { start: { line: number } };
  // deno-lint-ignore no-explicit-any -- one walker for all kinds of nodes
  [field: string]: any;
}

const OPERATORS: Record<string, string> = {
  "===": "!==",
  "!==": "===",
  "<": "<=",
  "<=": "<",
  ">": ">=",
  ">=": ">",
  "&&": "||",
  "||": "&&",
  "+": "-",
  "-": "+",
  "*": "/",
  "%": "*",
};

/**
 * All single changes of a source that a test should notice: operators,
 * conditions, literals, dropped statements.
 */
export function mutationsOf(source: string): Mutation[] {
  const { program } = parse(source, {
    sourceType: "module",
    plugins: ["typescript"],
  });
  const found: Mutation[] = [];
  const add = (start: number, end: number, text: string, line: number) =>
    found.push({ start, end, text, before: source.slice(start, end), line });

  const visit = (node: Node) => {
    if (/^(TS|Import)/.test(node.type) && !KEPT.has(node.type)) return;
    const line = node.loc.start.line;
    switch (node.type) {
      case "BinaryExpression":
      case "LogicalExpression": {
        const [left, right] = [node.left as Node, node.right as Node];
        if (node.operator === "??") add(node.start, node.end, source.slice(left.start, left.end), line);
        else if (OPERATORS[node.operator] && !isText(left) && !isText(right)) {
          const at = source.indexOf(node.operator, left.end);
          add(at, at + node.operator.length, OPERATORS[node.operator], line);
        }
        break;
      }
      case "UnaryExpression":
        if (node.operator === "!") add(node.start, node.start + 1, "", line);
        break;
      case "BooleanLiteral":
        add(node.start, node.end, String(!node.value), line);
        break;
      case "VariableDeclarator":
        if (isDuration(node)) return;
        break;
      case "NumericLiteral":
        add(node.start, node.end, String(node.value + 1), line);
        break;
      case "IfStatement":
        add(node.test.start, node.test.end, "false", line);
        add(node.test.start, node.test.end, "true", line);
        break;
      case "ExpressionStatement":
        add(node.start, node.end, ";", line);
        break;
      case "ReturnStatement":
        // Falsy in place of falsy goes unnoticed; a boolean has a mutation of its own.
        if (node.argument && !isFalsy(node.argument)) {
          add(node.start, node.end, "return undefined as never;", line);
        }
        break;
      case "ThrowStatement":
      case "BreakStatement":
      case "ContinueStatement":
        add(node.start, node.end, ";", line);
        break;
    }
    for (const child of children(node)) visit(child);
  };
  visit(program as unknown as Node);
  return found;
}

/** Nodes of types and casts that hold code. */
const KEPT = new Set(["TSAsExpression", "TSNonNullExpression", "TSSatisfiesExpression"]);

/**
 * True if a declaration is a constant of time: a test with a wall-clock limit would
 * be needed to notice its change.
 */
const isDuration = ({ id, init }: Node) =>
  /^[A-Z0-9_]*_MS$/.test(id.name ?? "") && /Literal|Binary/.test(init?.type ?? "");

const isFalsy = ({ type, name, value }: Node) =>
  name === "undefined" || type === "NullLiteral" || (type === "BooleanLiteral" && !value);

const isText = ({ type }: Node) => type === "StringLiteral" || type === "TemplateLiteral";

function children(node: Node): Node[] {
  return Object.values(node).flat().filter((value) => typeof value?.type === "string" && value.loc);
}
