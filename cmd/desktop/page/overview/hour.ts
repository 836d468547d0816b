/** Events of the last hour by minute, and of today: read once for all VMs, then counted as they happen. */
import { signal } from "@preact/signals";
import { api, type OverviewOf, type RecordedEvent } from "../../api/routes.ts";
import type { BarCounts } from "../../part/bars.tsx";
import { type LiveDecision, onMessage } from "../../store/live.ts";

const MINUTE_MS = 60_000;
/** Bars of a graph, a minute each. */
export const BARS = 60;

type Minutes = Map<number, BarCounts>;

/** The bars of an hour that ends `now`, the oldest first. */
export function barsOf(minutes: Minutes | undefined, now: number): BarCounts[] {
  const last = Math.floor(now / MINUTE_MS);
  return Array.from(
    { length: BARS },
    (_, at) => minutes?.get(last - BARS + 1 + at) ?? { events: 0, denied: 0, asked: 0 },
  );
}

/** `ms` between two drawings of live counts. */
const DRAW_MS = 1000;

/** Counts and last events of VMs while a page shows them. */
export class Hours {
  /** grows with each change of the counts */
  readonly version = signal(0);
  readonly minutes = new Map<string, Minutes>();
  readonly last = new Map<string, RecordedEvent>();
  /** events of today, of all sessions; absent until they are read */
  today: OverviewOf["today"] | undefined;
  readonly #stop: () => void;
  #timer: ReturnType<typeof setTimeout> | undefined;

  constructor() {
    this.#stop = onMessage(({ type, payload }) => {
      if (type === "security-event") this.#count(payload.event, payload.decision);
    });
  }

  close(): void {
    this.#stop();
    clearTimeout(this.#timer);
  }

  /**
   * Reads the hour and the newest event of every VM, and today's counts, which replace the live ones.
   *
   * @param today begin of the day, unix `ms`
   */
  async read(today: number): Promise<OverviewOf> {
    const since = (Math.floor(Date.now() / MINUTE_MS) - BARS + 1) * MINUTE_MS;
    const overview = await api.overview({
      since: String(since),
      today: String(today),
      step: String(MINUTE_MS),
    });
    for (const { id, steps, last } of overview.vms) {
      const minutes = steps.map(({ at_unix_ms, events, denied, asked }) =>
        [Math.floor(at_unix_ms / MINUTE_MS), { events, denied, asked }] as const
      );
      this.minutes.set(id, new Map(minutes));
      if (last) this.last.set(id, last);
    }
    this.today = { ...overview.today };
    this.#draw();
    return overview;
  }

  #count(event: RecordedEvent, decision: LiveDecision | undefined): void {
    const { session_id, timestamp_unix_ms } = event.common;
    const minutes = this.minutes.get(session_id) ?? new Map<number, BarCounts>();
    const minute = Math.floor(timestamp_unix_ms / MINUTE_MS);
    const { events, denied, asked } = minutes.get(minute) ?? { events: 0, denied: 0, asked: 0 };
    minutes.set(minute, {
      events: events + 1,
      denied: denied + (decision?.decision === "block" ? 1 : 0),
      asked: asked + (decision?.decision === "ask" ? 1 : 0),
    });
    if (this.today) {
      this.today.events++;
      if (decision?.decision === "block") this.today.denied++;
    }
    for (const old of minutes.keys()) {
      if (old > minute - BARS) break;
      minutes.delete(old);
    }
    this.minutes.set(session_id, minutes);
    this.last.set(session_id, event);
    this.#draw();
  }

  #draw(): void {
    this.#timer ??= setTimeout(() => {
      this.#timer = undefined;
      this.version.value++;
    }, DRAW_MS / 4);
  }
}
