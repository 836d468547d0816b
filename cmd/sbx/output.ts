/** Output of the CLI: tables and errors. */
import { errorBody, type SbxError } from "../../lib/base/error/mod.ts";
import { brief, formatJson, note, plain } from "../../lib/base/print/mod.ts";

/** Writes an error as text or JSON to stderr, so that stdout has results only. */
export function printError(error: SbxError, json: boolean): void {
  if (json) return note(formatJson(errorBody(error)));
  note(brief(`sbx: ${error.message}`));
  if (error.hint) note(brief(error.hint));
}

/** Formats rows below headings; a column is as wide as its widest cell. */
export function table(headings: string[], rows: string[][]): string {
  const cells = [headings, ...rows.map((row) => row.map((cell) => plain(cell)))];
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  return cells.map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd()).join(
    "\n",
  );
}

/** Formats names and values, one pair per line; omits undefined values. */
export function pairs(values: [string, string | undefined][]): string {
  const defined = values.filter((pair): pair is [string, string] => pair[1] !== undefined);
  const width = Math.max(...defined.map(([name]) => name.length));
  return defined.map(([name, value]) => `${name.padEnd(width)}  ${plain(value)}`).join("\n");
}

/** Formats boot stages with their durations. */
export function stageTable(stages: { name: string; ms: number }[]): string {
  return table(["STAGE", "MS"], stages.map(({ name, ms }) => [name, ms.toFixed(0)]));
}
