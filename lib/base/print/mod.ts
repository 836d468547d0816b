/** Text for a person's terminal, without anything in it that a guest could use to rewrite the screen. */
import { writeAll } from "../wire/mod.ts";

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

/**
 * Characters that change a terminal's display, rather than being shown: controls of ASCII (but tab and line
 * feed) and of Latin-1, marks that turn the direction of text, separators of lines, and invisible tags.
 */
const UNSEEN =
  // deno-lint-ignore no-control-regex
  /[\x00-\x08\x0b-\x1f\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/** The same characters in JSON text: its serializer has escaped those below a space. */
const UNSEEN_IN_JSON =
  /[\x7f-\x9f\u00ad\u061c\u180e\u200b\u200e\u200f\u2028-\u202e\u2060-\u2069\ufeff\u034f\u115f\u1160\u17b4\u17b5\u3164\uffa0\ufff9-\ufffb]|[\u{e0000}-\u{e007f}]/gu;

/**
 * Replaces characters that move the cursor, rewrite the screen, reorder a line or take no room on it, in
 * text from a guest or a server.
 *
 * @param keepLines keep line breaks; otherwise they become spaces
 */
export function plain(text: string, keepLines = false): string {
  const seen = text.replace(UNSEEN, "�");
  return keepLines ? seen : seen.replaceAll("\n", " ");
}

/**
 * JSON of a value with all of these characters escaped: safe on a terminal, and the same value to a parser.
 */
export function formatJson(value: unknown, indent?: number): string {
  return JSON.stringify(value, null, indent).replace(
    UNSEEN_IN_JSON,
    (char) => Array.from({ length: char.length }, (_, at) => escaped(char.charCodeAt(at))).join(""),
  );
}

const escaped = (unit: number) => `\\u${unit.toString(16).padStart(4, "0")}`;
