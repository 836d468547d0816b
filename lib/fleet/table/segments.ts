import { join } from "node:path";
import { positionOf, storePaths } from "../store/mod.ts";

/** Segments of a store, session by session, each session in order. */
export async function* allSegments(dir: string) {
  const { segments } = storePaths(dir);
  for (const machineId of await folders(segments)) {
    for (const sessionId of await folders(join(segments, machineId))) {
      const names = (await Array.fromAsync(Deno.readDir(join(segments, machineId, sessionId)))).map((
        { name },
      ) => name);
      for (const name of names.filter(positionOf).sort()) yield { machineId, sessionId, name };
    }
  }
}

async function folders(dir: string): Promise<string[]> {
  try {
    return (await Array.fromAsync(Deno.readDir(dir))).filter(({ isDirectory }) => isDirectory).map((
      { name },
    ) => name).sort();
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return [];
    throw error;
  }
}
