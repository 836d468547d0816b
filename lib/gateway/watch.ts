/** Milliseconds between two looks at the requests that wait. */
const SWEEP_MS = 25;

/** One request that waits for its answer. */
interface Waiting {
  signal: () => AbortSignal;
  gone: () => void;
  /** how many sweeps have met it */
  seen: number;
  watched?: AbortSignal;
}

/**
 * Tells requests whose client has gone away. Asking the server for a request's signal costs a third of what the
 * gateway does for a small request, so only those are asked about that have waited for a sweep or two.
 */
export class ClientWatch {
  readonly #waiting = new Set<Waiting>();
  #timer?: ReturnType<typeof setInterval>;

  /** Calls `gone` at most once, when `signal` aborts; the function that it returns ends the watch. */
  watch(signal: () => AbortSignal, gone: () => void): () => void {
    const entry: Waiting = { signal, gone, seen: 0 };
    this.#waiting.add(entry);
    this.#timer ??= setInterval(() => this.#sweep(), SWEEP_MS);
    return () => {
      this.#waiting.delete(entry);
      entry.watched?.removeEventListener("abort", gone);
    };
  }

  #sweep(): void {
    if (this.#waiting.size === 0) {
      clearInterval(this.#timer);
      this.#timer = undefined;
    }
    for (const entry of this.#waiting) {
      if (entry.seen++ !== 1) continue;
      entry.watched = entry.signal();
      if (entry.watched.aborted) entry.gone();
      else entry.watched.addEventListener("abort", entry.gone, { once: true });
    }
  }
}
