/** Literals as CEL text. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { MatchError } from "./field.ts";

/** Largest `int` of CEL. */
export const INT_MAX = 2n ** 63n - 1n;

/** Formats a literal as CEL text. @throws {MatchError} for an integer out of range */
export function formatLiteral(node: ASTNode & { op: "value" }): string {
  const value = node.args;
  if (typeof value === "string") return quote(value);
  if (typeof value === "bigint") {
    if (value > INT_MAX) throw new MatchError(`${value} is out of range for int`, node.start);
    return value < 0n ? `(${value})` : `${value}`;
  }
  if (typeof value === "number") {
    const text = /[.e]/.test(`${value}`) ? `${value}` : `${value}.0`;
    return value < 0 ? `(${text})` : text;
  }
  if (value === null || typeof value === "boolean") return `${value}`;
  if (value instanceof Uint8Array) {
    return `b"${[...value].map((byte) => `\\x${byte.toString(16).padStart(2, "0")}`).join("")}"`;
  }
  return `${value.value}u`;
}

/** Quotes text as a CEL string literal. */
export function quote(text: string): string {
  return `"${
    text.replace(/["\\]/g, "\\$&").replace(
      // deno-lint-ignore no-control-regex
      /[\x00-\x1f\x7f]/g,
      (char) => `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`,
    )
  }"`;
}
