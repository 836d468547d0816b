import { join } from "node:path";
import { type Home, lockWithin } from "../../base/home/mod.ts";
import { fileError } from "./name.ts";
import { settlePairs } from "./pair.ts";

/** Time in `ms` after which a person learns the reason for waiting. */
const SILENT_MS = 1000;

/**
 * Changes the installed files, one change at a time: of two updates the second waits, then finds everything
 * there. A change that a crash interrupted is completed first.
 *
 * @param what words in front of an error of the file system
 * @param onWait called when another change takes its time
 */
export async function changeAssets<T>(
  { assetsDir }: Pick<Home, "assetsDir">,
  what: string,
  work: () => Promise<T>,
  onWait?: () => void,
): Promise<T> {
  try {
    await Deno.mkdir(assetsDir, { recursive: true, mode: 0o700 });
    using _lock = await lock(join(assetsDir, ".lock"), onWait);
    await settlePairs(assetsDir);
    return await work();
  } catch (error) {
    throw fileError(error, `${what} in ${assetsDir}`);
  }
}

async function lock(path: string, onWait: () => void = () => {}): Promise<Deno.FsFile> {
  const open = () => Deno.open(path, { write: true, create: true, mode: 0o600 });
  const file = await open();
  if (await lockWithin(file, SILENT_MS)) return file;
  file.close();
  onWait();
  const waiting = await open();
  await waiting.lock(true);
  return waiting;
}
