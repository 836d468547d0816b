/**
 * The file by which the scenarios report to the host: JSON lines, first the names, then an outcome for each
 * time that one ran.
 */
import type { Outcome } from "./world.ts";

export async function appendLine(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, `${JSON.stringify(value)}\n`, { append: true });
}

/** Complete lines of the file, in order; none where there is no file. */
export async function readLines(path: string): Promise<unknown[]> {
  const text = await Deno.readTextFile(path).catch(() => "");
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}

/** Names of the scenarios that are left to run: a machine that ends takes the one that ran with it, once. */
export function leftOf(names: string[], outcomes: Outcome[]): string[] {
  return names.filter((name) => {
    const own = outcomes.filter((outcome) => outcome.name === name);
    return own.length === 0 || own.length === 1 && own[0].isLost === true;
  });
}
