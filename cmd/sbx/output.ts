/** Output of the CLI: bytes, JSON, tables and errors. */
import { errorBody, type SbxError } from "../../lib/base/error/mod.ts";

const encoder = new TextEncoder();

/** Writes all bytes to a stream. */
export async function writeAll(
  to: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await to.write(bytes.subarray(at));
}

/** Writes a line to stdout. */
export async function print(text: string): Promise<void> {
  await writeAll(Deno.stdout, encoder.encode(`${text}\n`));
}

/** Writes a line to stderr. */
export function note(text: string): void {
  console.error(text);
}

export async function printJson(value: unknown): Promise<void> {
  await print(JSON.stringify(value, null, 2));
}

/** Writes an error as text or JSON to stderr, so that stdout has results only. */
export function printError(error: SbxError, json: boolean): void {
  if (json) return note(JSON.stringify(errorBody(error)));
  note(`sbx: ${plain(error.message, true)}`);
  if (error.hint) note(plain(error.hint, true));
}

/**
 * Replaces control characters in text from a guest or a server, which could move the cursor or rewrite the screen.
 *
 * @param keepLines keep line breaks; otherwise they become spaces
 */
export function plain(text: string, keepLines = false): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "�").replace(/\n/g, keepLines ? "\n" : " ");
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
