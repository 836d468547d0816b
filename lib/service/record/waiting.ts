import { pause } from "../../base/time/mod.ts";
import type { EventPage } from "../../ledger/read/mod.ts";
import type { Notices } from "../notice.ts";

/** `ms` between two reads without news: news of an event may come before its row can be read. */
const READ_AGAIN_MS = 1000;
/** Least `ms` from one read to the next: a guest makes as many events as it likes. */
export const READ_APART_MS = 50;

/**
 * Reads a page of events; one without any again at each event of any session, until
 * it has one or the time is over.
 *
 * @param ms longest wait
 * @param signal ends the wait when the client is gone
 */
export async function waitForEvents(
  notices: Pick<Notices, "listen">,
  read: () => Promise<EventPage>,
  ms: number,
  signal: AbortSignal,
): Promise<EventPage> {
  let news = Promise.withResolvers<void>();
  const stop = notices.listen(({ type }) => {
    if (type === "security-event") news.resolve();
  });
  const gone = () => news.resolve();
  signal.addEventListener("abort", gone);
  try {
    const deadline = performance.now() + ms;
    for (;;) {
      const next = performance.now() + READ_APART_MS;
      const page = await read();
      const left = deadline - performance.now();
      if (page.events.length > 0 || left <= 0 || signal.aborted) return page;
      const timer = setTimeout(() => news.resolve(), Math.min(left, READ_AGAIN_MS));
      await news.promise;
      clearTimeout(timer);
      const early = next - performance.now();
      if (early > 0) await pause(early, signal);
      news = Promise.withResolvers<void>();
    }
  } finally {
    stop();
    signal.removeEventListener("abort", gone);
  }
}
