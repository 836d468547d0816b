/** Files that are written under another name until they are complete. */

/** Signals by which a person ends a command, with their numbers: the exit code is 128 more. */
const SIGNALS: [Deno.Signal, number][] = [["SIGINT", 2], ["SIGTERM", 15], ["SIGHUP", 1]];

/**
 * Runs `write`, which makes the file `path` and renames it. Whatever ends it, a signal too, no partial file is left.
 */
export async function withPartialFile<T>(path: string, write: () => Promise<T>): Promise<T> {
  const ends = SIGNALS.map(([signal, number]) => ({ signal, end: () => endBySignal(path, number) }));
  for (const { signal, end } of ends) Deno.addSignalListener(signal, end);
  try {
    return await write();
  } catch (error) {
    remove(path);
    throw error;
  } finally {
    for (const { signal, end } of ends) Deno.removeSignalListener(signal, end);
  }
}

function endBySignal(path: string, number: number): never {
  remove(path);
  Deno.exit(128 + number);
}

function remove(path: string): void {
  try {
    Deno.removeSync(path);
  } catch {
    // not made yet, or renamed already
  }
}
