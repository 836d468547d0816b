/**
 * Runs `work` with a signal that aborts on Ctrl-C, SIGTERM and a closed terminal, so that it can clean up.
 */
export async function withInterrupts<T>(work: (signal: AbortSignal) => Promise<T>): Promise<T> {
  const controller = new AbortController();
  const abort = () => controller.abort();
  const signals: Deno.Signal[] = ["SIGINT", "SIGTERM", "SIGHUP"];
  for (const signal of signals) Deno.addSignalListener(signal, abort);
  try {
    return await work(controller.signal);
  } finally {
    for (const signal of signals) Deno.removeSignalListener(signal, abort);
  }
}
