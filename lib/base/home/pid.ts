/**
 * Tests whether a pid file names this process. A home that was removed and made again has the files of another one, which
 * a process of the home before must leave alone.
 */
export function namesThisProcess(pidFile: string): boolean {
  try {
    return Number(Deno.readTextFileSync(pidFile)) === Deno.pid;
  } catch (error) {
    if (error instanceof Deno.errors.NotFound) return false;
    throw error;
  }
}
