/** Which kills a run does. */
export const COUNT = Number(Deno.env.get("COUNT") || 100);
/** Seed of the first one; each has one of its own, so that one that failed can be run alone. */
export const SEED = Number(Deno.env.get("SEED") || 1);

/** Tells what was done: a quiet run hides all that goes through Deno's own standard error. */
export function say(line: string): void {
  Deno.writeTextFileSync("/dev/stderr", `${line}\n`, { append: true });
}
