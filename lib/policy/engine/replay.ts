/** Decisions on recorded events, each with the history of its session until then. */
import { type Event, familyOf } from "../../event/mod.ts";
import type { Evaluation } from "../decision/mod.ts";
import { History } from "./history.ts";
import type { Observation } from "./observe.ts";
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

  /** Decides on an event; an allowed one goes ahead. */
  evaluate(event: Event): Evaluation {
    const evaluation = this.decide(event);
    if (evaluation.decision.decision === "allow") this.#history.record(evaluation.event);
    return evaluation;
  }

  /**
   * Decides on an event as a VM does: before it happens, and again on its response, where only a block
   * counts. Whether it went ahead is for {@linkcode observe}.
   */
  decide(event: Event): Evaluation {
    const history = this.#of(event);
    const before = withoutResponse(event);
    const first = this.#policy.evaluate(before, { history });
    if (before === event || first.decision.decision !== "allow") return first;
    const review = this.#policy.evaluate(event, { history });
    const failures = [...first.failures, ...review.failures];
    return { ...review.decision.decision === "block" ? review : { ...first, event: review.event }, failures };
  }

  /** Returns findings of rules that only observe, before the event is part of the history. */
  watch(event: Event): Observation {
    return this.#policy.observe(event, { history: this.#of(event) });
  }

  /** Adds an event to the history, which went ahead whatever the rules say. */
  observe(event: Event): void {
    this.#of(event).record(event);
  }

  #of({ common: { session_id } }: Event): History {
    if (session_id !== this.#session) this.#history = new History(this.#policy.counters);
    this.#session = session_id;
    return this.#history;
  }
}

/** Findings of rules that only observe, over recorded events: the same as in a VM at that moment. */
export class Watch {
  readonly #replay: Replay;

  constructor(readonly policy: Policy) {
    this.#replay = new Replay(policy);
  }

  /** @param decision on the record; absent: the event was only observed */
  observe(event: Event, decision: string | undefined): Observation {
    const found = this.#replay.watch(event);
    if (decision === undefined || decision === "allow") this.#replay.observe(event);
    return found;
  }
}

function withoutResponse(event: Event): Event {
  const family = familyOf(event.common.event_type);
  const body = event[family as "http"];
  if (body?.response === undefined) return event;
  const { response: _, ...rest } = body;
  return { ...event, [family]: rest };
}
