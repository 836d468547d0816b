/** Figures of a long test, which `make` shows at its end: the runner hides output of tests that pass. */
import { join } from "node:path";
import { fromRoot } from "./repo.ts";

/** Keeps the figures as one line of JSON, in `.cache/figures/NAME.json`. */
export async function keepFigures(name: string, figures: Record<string, unknown>): Promise<void> {
  const dir = fromRoot(".cache/figures");
  await Deno.mkdir(dir, { recursive: true });
  await Deno.writeTextFile(join(dir, `${name}.json`), JSON.stringify({ name, ...figures }) + "\n");
}
