/** What the CLI prints: bytes as they are, JSON, tables, and errors. */
import { errorBody, type SbxError } from "../../lib/base/error/mod.ts";

const encoder = new TextEncoder();

/** Writes all bytes to stdout or stderr. */
export async function writeAll(
  to: { write(bytes: Uint8Array): Promise<number> },
  bytes: Uint8Array,
): Promise<void> {
  for (let at = 0; at < bytes.length;) at += await to.write(bytes.subarray(at));
}

/** A line on stdout. */
export async function print(text: string): Promise<void> {
  await writeAll(Deno.stdout, encoder.encode(`${text}\n`));
}

/** A line on stderr. */
export function note(text: string): void {
  console.error(text);
}

export async function printJson(value: unknown): Promise<void> {
  await print(JSON.stringify(value, null, 2));
}

/** An error as a person reads it, or as JSON; on stderr, so that stdout holds results only. */
export function printError(error: SbxError, json: boolean): void {
  if (json) return note(JSON.stringify(errorBody(error)));
  note(`sbx: ${plain(error.message, true)}`);
  if (error.hint) note(plain(error.hint, true));
}

/** Text from a guest or a server without what moves the cursor or rewrites the screen. */
export function plain(text: string, lines = false): string {
  // deno-lint-ignore no-control-regex
  return text.replace(/[\x00-\x08\x0b-\x1f\x7f-\x9f]/g, "�").replace(/\n/g, lines ? "\n" : " ");
}

/** `1 VM`, `2 VMs`. */
export function counted(number: number, what: string): string {
  return `${number} ${what}${number === 1 ? "" : "s"}`;
}

/** Rows below headings, in columns as wide as their widest cell. */
export function table(headings: string[], rows: string[][]): string {
  const cells = [headings, ...rows.map((row) => row.map((cell) => plain(cell)))];
  const widths = headings.map((_, column) => Math.max(...cells.map((row) => row[column].length)));
  return cells.map((row) => row.map((cell, column) => cell.padEnd(widths[column])).join("  ").trimEnd()).join(
    "\n",
  );
}

/** Names and values, one a line. */
export function pairs(values: [string, string | undefined][]): string {
  const shown = values.filter((pair): pair is [string, string] => pair[1] !== undefined);
  const width = Math.max(...shown.map(([name]) => name.length));
  return shown.map(([name, value]) => `${name.padEnd(width)}  ${plain(value)}`).join("\n");
}

/** Boot stages: where the milliseconds went. */
export function stageTable(stages: { name: string; ms: number }[]): string {
  return table(["STAGE", "MS"], stages.map(({ name, ms }) => [name, ms.toFixed(0)]));
}
