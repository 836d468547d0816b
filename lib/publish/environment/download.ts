/**
 * Downloads that another program makes into a folder: measured on the way, and stopped when a check fails.
 */
import { ignore, type SbxError } from "../../base/error/mod.ts";
import { backgroundInterval } from "../../base/time/mod.ts";
import { diskBytes } from "../../release/environment/mod.ts";

/** Time between two measurements, in `ms`. */
const INTERVAL_MS = 300;

/**
 * Runs a download.
 *
 * @param check gets the number of bytes that arrived so far; an error that it
 * returns stops the work, and is thrown
 */
export async function download<T>(
  folder: string,
  check: (arrived: number) => Promise<SbxError | undefined>,
  work: (stop: AbortSignal) => Promise<T>,
): Promise<T> {
  const before = await diskBytes(folder);
  const stop = new AbortController();
  const measure = async () => {
    const error = await check(await diskBytes(folder) - before);
    if (error) stop.abort(error);
  };
  const timer = backgroundInterval(() => void measure().catch(ignore("it is measured again")), INTERVAL_MS);
  try {
    return await work(stop.signal);
  } catch (error) {
    throw stop.signal.aborted ? stop.signal.reason : error;
  } finally {
    clearInterval(timer);
  }
}
