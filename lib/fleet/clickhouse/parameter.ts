/** Values of parameters as the HTTP interface takes them: `param_NAME`, read by the type that the statement declares. */
import type { SqlParameter } from "../../detection/sql/mod.ts";

const ESCAPES: Record<string, string> = {
  "\\": "\\\\",
  "\0": "\\0",
  "\b": "\\b",
  "\f": "\\f",
  "\n": "\\n",
  "\r": "\\r",
  "\t": "\\t",
};

/** One value stands for itself, several are an array. */
export function formatParameter({ type, values }: SqlParameter): string {
  if (type !== "string") return values.length === 1 ? String(values[0]) : `[${values.join(",")}]`;
  if (values.length === 1) return escape(values[0]);
  return `[${values.map((value) => `'${escape(value).replaceAll("'", "\\'")}'`).join(",")}]`;
}

function escape(text: string): string {
  // deno-lint-ignore no-control-regex
  return text.toWellFormed().replaceAll(/[\\\x00\x08\f\n\r\t]/g, (character) => ESCAPES[character]);
}
