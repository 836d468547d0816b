/** Events of the last hour by minute: read once for each VM, then counted as they happen. */
import { signal } from "@preact/signals";
import { api, type RecordedEvent } from "../../api/routes.ts";
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

  /** Reads a VM's hour and its newest event, which replace the live counts. */
  async read(vm: string): Promise<void> {
    const since = String((Math.floor(Date.now() / MINUTE_MS) - BARS + 1) * MINUTE_MS);
    const [{ steps }, { events: [last] }] = await Promise.all([
      api.counts({ vm, since, step: String(MINUTE_MS) }),
      api.events(vm, { order: "newest", limit: "1" }),
    ]);
    this.minutes.set(
      vm,
      new Map(steps.map(({ at_unix_ms, events, denied, asked }) => [
        Math.floor(at_unix_ms / MINUTE_MS),
        { events, denied, asked },
      ])),
    );
    if (last) this.last.set(vm, last);
    this.#draw();
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
