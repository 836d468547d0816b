import { asSbxError } from "../base/error/mod.ts";
import { writeAtomic } from "../base/home/mod.ts";
import { log } from "../base/log/mod.ts";
import { backgroundTimeout } from "../base/time/mod.ts";

/** `ms` between attempts to write a pid file that could not be written. */
const RETRY_MS = 1000;

/** Writes the id of this process. A full disk does not end the service, which can free space: it tries again until it can. */
export async function writePidFile(path: string): Promise<void> {
  try {
    await writeAtomic(path, `${Deno.pid}\n`);
  } catch (error) {
    log.warn(asSbxError(error, `writing ${path}`).message);
    backgroundTimeout(() => writePidFile(path), RETRY_MS);
  }
}
