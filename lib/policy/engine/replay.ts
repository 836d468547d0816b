/** Decisions on recorded events, each with the history of its session until then. */
import type { Event } from "../../event/mod.ts";
import type { Evaluation } from "../decision/mod.ts";
import { History } from "./history.ts";
import type { Policy } from "./policy.ts";

/** Decides on events in the order of the record, session after session. */
export class Replay {
  readonly #policy: Policy;
  #session = "";
  #history: History;

  constructor(policy: Policy) {
    this.#policy = policy;
    this.#history = new History(policy.counters);
  }

  /** Decides on an event, which goes ahead if it is allowed. */
  evaluate(event: Event): Evaluation {
    const evaluation = this.#policy.evaluate(event, { history: this.#of(event) });
    if (evaluation.decision.decision === "allow") this.#history.record(evaluation.event);
    return evaluation;
  }

  /** An event that went ahead without a decision. */
  observe(event: Event): void {
    this.#of(event).record(event);
  }

  #of({ common: { session_id } }: Event): History {
    if (session_id !== this.#session) this.#history = new History(this.#policy.counters);
    this.#session = session_id;
    return this.#history;
  }
}
