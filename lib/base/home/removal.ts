import { backgroundInterval } from "../time/mod.ts";

/** Time between two looks at a folder, in `ms`. */
const LOOK_MS = 10_000;

/**
 * Calls `then` when a folder is gone, or another is in its place: nobody can reach a program by files that were removed,
 * and nothing else would end it.
 */
export async function onRemoval(dir: string, then: () => void): Promise<void> {
  const { dev, ino } = await Deno.stat(dir);
  const timer = backgroundInterval(async () => {
    const now = await Deno.stat(dir).catch((error) =>
      error instanceof Deno.errors.NotFound ? undefined : { dev, ino }
    );
    if (now?.dev === dev && now.ino === ino) return;
    clearInterval(timer);
    then();
  }, LOOK_MS);
}
