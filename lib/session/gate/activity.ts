/** Events of a session that are under way, to decide whether the session is in use. */
import { type Event, familyOf } from "../../event/mod.ts";
import type { PassageGate } from "./passage.ts";
import { RESPONDING } from "./response.ts";

export class EventActivity {
  /** ids of allowed events whose response has not ended */
  readonly #open = new Set<string>();
  #lastAt = performance.now();

  /** Time of the last event, in `ms` of this process. */
  get lastAt(): number {
    return this.#lastAt;
  }

  get isBusy(): boolean {
    return this.#open.size > 0;
  }

  /** @param event absent: the end of one */
  recorded(event?: Event): void {
    // A program that the guest starts on its own does not count as use.
    if (event?.process && event.common.actor === "vm") return;
    this.#lastAt = performance.now();
  }

  /** A gate for passages, whose beginnings and ends are noted. */
  following(gate: Omit<PassageGate, "opened">): PassageGate {
    return {
      ...gate,
      opened: ({ common: { event_id, event_type } }) => {
        if (RESPONDING.has(familyOf(event_type))) this.#open.add(event_id);
      },
      recordEnd: (event, outcome) => {
        this.#open.delete(event.common.event_id);
        this.recorded();
        gate.recordEnd(event, outcome);
      },
    };
  }
}
