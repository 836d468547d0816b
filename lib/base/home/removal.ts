import { backgroundInterval } from "../time/mod.ts";

/** Time between two checks of a folder, in `ms`. */
const LOOK_MS = 10_000;

/**
 * Calls `then` when a folder is gone or was replaced: its program is out of reach once its files are removed,
 * and would never end.
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
