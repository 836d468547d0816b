import { join } from "node:path";
import type { Home } from "../base/home/mod.ts";
import { fileError } from "./file_error.ts";

/**
 * Changes what is installed, one change at a time: of two updates the second waits, then finds everything there.
 *
 * @param what said in front of an error of the file system
 */
export async function changeAssets<T>(
  { assetsDir }: Pick<Home, "assetsDir">,
  what: string,
  work: () => Promise<T>,
): Promise<T> {
  try {
    await Deno.mkdir(assetsDir, { recursive: true, mode: 0o700 });
    using lock = await Deno.open(join(assetsDir, ".lock"), { write: true, create: true, mode: 0o600 });
    await lock.lock(true);
    return await work();
  } catch (error) {
    throw fileError(error, `${what} in ${assetsDir}`);
  }
}
