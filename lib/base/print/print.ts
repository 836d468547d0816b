import { writeAll } from "../wire/mod.ts";
import { formatJson, plain } from "./plain.ts";

const encoder = new TextEncoder();

/** Writes lines to stdout, as {@linkcode plain} text. */
export async function print(text: string): Promise<void> {
  await writeAll(Deno.stdout, encoder.encode(`${plain(text, true)}\n`));
}

/** Most characters of one word in an error. */
const WORD_MAX = 400;

/** Shortens words that fill a screen, such as a file given in place of its name, in the text of an error. */
export function brief(text: string): string {
  return text.replaceAll(
    new RegExp(`\\S{${WORD_MAX},}`, "g"),
    (word) => `${word.slice(0, 100)}… (${word.length} characters)`,
  );
}

/** Writes lines to stderr, as {@linkcode plain} text. */
export function note(text: string): void {
  console.error(plain(text, true));
}

/** Writes a value to stdout as indented JSON. */
export async function printJson(value: unknown): Promise<void> {
  await print(formatJson(value, 2));
}
