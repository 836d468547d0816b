/**
 * Size of the logs of a home's programs: a log that is full begins again, and
 * its earlier lines stay beside it.
 */
import { join } from "node:path";
import { ifFound } from "../../base/error/mod.ts";
import type { Home } from "../../base/home/mod.ts";

/**
 * `bytes` of one log (docs/design/contracts/14-limits.md §14); with its earlier lines
 * it takes at most twice as many.
 */
export const LOG_BYTES = 10 * 1024 ** 2;

/**
 * Moves the lines of each log over the limit to `NAME.log.1`, whose lines go. Programs write to the end of
 * their open log, so that it is emptied in place; lines written between the copy and that are lost.
 *
 * @returns names of the logs that begin again
 */
export async function boundLogs({ logsDir }: Pick<Home, "logsDir">, most = LOG_BYTES): Promise<string[]> {
  const full: string[] = [];
  for (const name of ["service.log", "gateway.log", "tray.log", "spare.log"]) {
    const path = join(logsDir, name);
    const info = await ifFound(Deno.lstat(path));
    if (!info?.isFile || info.size <= most) continue;
    await Deno.copyFile(path, `${path}.new`);
    await Deno.rename(`${path}.new`, `${path}.1`);
    await Deno.truncate(path);
    full.push(name);
  }
  return full;
}
