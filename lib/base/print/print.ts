import { writeAll } from "../wire/mod.ts";
import { formatJson, plain } from "./plain.ts";

const encoder = new TextEncoder();

/** Writes lines to stdout, as {@linkcode plain} text. */
export async function print(text: string): Promise<void> {
  await writeAll(Deno.stdout, encoder.encode(`${plain(text, true)}\n`));
}

/** Writes lines to stderr, as {@linkcode plain} text. */
export function note(text: string): void {
  console.error(plain(text, true));
}

/** Writes a value to stdout as indented JSON. */
export async function printJson(value: unknown): Promise<void> {
  await print(formatJson(value, 2));
}
