/** Notifies a client that its request waits for a person, so that it neither gives up nor hides the wait. */
import type { Progress } from "../entry.ts";

/**
 * Interval of the progress reports meanwhile, in `ms`: clients give up a request after a minute without any.
 */
export const WAITING_MS = 10_000;
/** Progress of each report; far below the progress of servers, which has to be more. */
const STEP = 1e-6;

/**
 * Reports a wait: by progress, now and at intervals, where the client requested it, else by a log message.
 *
 * @returns a function that ends it
 */
export function tellWaiting(
  askId: string,
  progress: ((progress: Progress) => void) | undefined,
  log: (text: string) => void,
  ms = WAITING_MS,
): () => void {
  const message = `waits for a person: ${askId}`;
  if (!progress) {
    log(message);
    return () => {};
  }
  let told = 0;
  const tell = () => progress({ progress: told++ * STEP, message });
  tell();
  const timer = setInterval(tell, ms);
  return () => clearInterval(timer);
}
