/** Output of the CLI: tables, errors, help's common parts, and a spinner. */
import { errorBody, type SbxError } from "../../lib/base/error/mod.ts";
import { brief, formatJson, note, plain } from "../../lib/base/print/mod.ts";
import { type Command, usageError as createUsageError } from "../../lib/base/args/mod.ts";

/** Writes an error as text or JSON to stderr, so that stdout has results only. */
export function printError(error: SbxError, json: boolean): void {
  if (json) return note(formatJson(errorBody(error)));
  note(brief(`sbx: ${error.message}`));
  if (error.hint) note(brief(error.hint));
}

/** Most lines, and most characters, of a guest's words in an error. */
const WORDS_LINES = 3, WORDS_MAX = 400;

/** The end of a guest's error output, on one line: it must make none that looks like sbx's own. */
export function lastWords(stderr: string): string {
  return plain(stderr.trim().split(/[\r\n]+/).slice(-WORDS_LINES).join(" ")).slice(-WORDS_MAX);
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

/** Name of the program in help and errors. */
export const PROGRAM = "sbx";

/** Note in the help of commands that print or take times. */
export const UTC_NOTE = "Times are UTC.";

/** Creates the error for an invalid call, which ends with exit code 2. */
export function usageError(command: Command, message: string, hint?: string): SbxError {
  return createUsageError({ program: PROGRAM, command }, message, hint);
}

const FRAMES = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧", "⠇", "⠏"];
const FRAME_MS = 80;
const CLEAR_LINE = "\r\x1b[K";

/** Spinner on stderr; does nothing if stderr is not a terminal. */
export class Spinner implements Disposable {
  readonly #timer?: ReturnType<typeof setInterval>;
  #frame = 0;

  constructor(text: string) {
    if (!Deno.stderr.isTerminal()) return;
    this.#timer = setInterval(() => {
      write(`${CLEAR_LINE}${FRAMES[this.#frame++ % FRAMES.length]} ${text}`);
    }, FRAME_MS);
  }

  [Symbol.dispose](): void {
    if (this.#timer === undefined) return;
    clearInterval(this.#timer);
    write(CLEAR_LINE);
  }
}

function write(text: string): void {
  Deno.stderr.writeSync(new TextEncoder().encode(text));
}
