/** The file by which the scenarios report to the host: JSON lines. */

export async function appendLine(path: string, value: unknown): Promise<void> {
  await Deno.writeTextFile(path, `${JSON.stringify(value)}\n`, { append: true });
}

/** Complete lines of the file, in order; none where there is no file. */
export async function readLines(path: string): Promise<unknown[]> {
  const text = await Deno.readTextFile(path).catch(() => "");
  return text.split("\n").slice(0, -1).map((line) => JSON.parse(line));
}
