/** A gate over the real policy engine and the real queue of asks, with a ledger that is an array. */
import { type Event, newEventId } from "../../lib/event/mod.ts";
import {
  AskQueue,
  compilePolicy,
  type Decision,
  type Draft,
  type Gate,
  type Outcome,
  type PolicyFinding,
  type Refusal,
  type Verdict,
} from "../../lib/policy/mod.ts";
import { parseRules } from "../../lib/policy/author/read.ts";

/** What became of one event. */
export interface GateEntry {
  event: Event;
  decision?: Decision;
  findings?: PolicyFinding[];
  outcome?: Outcome;
}

export class TestGate implements Gate {
  /** in the order in which the events came */
  readonly entries: GateEntry[] = [];
  readonly asks = new AskQueue();
  readonly #byId = new Map<string, GateEntry>();
  readonly #policy;

  /** @param rules TOML: `[corp.rules.<id>]`, `[profiles.rules.<id>]`, `[default.<id>]` */
  constructor(rules = "") {
    this.#policy = compilePolicy(parseRules(rules, "rules.toml"));
  }

  async decide(draft: Draft, signal?: AbortSignal): Promise<Verdict> {
    const { event, decision, findings } = this.#policy.evaluate(this.#eventOf(draft));
    this.#keep({ event, decision, findings });
    if (decision.decision === "ask") {
      const denied = new Promise<"block">((resolve) =>
        signal?.addEventListener("abort", () => resolve("block"))
      );
      decision.decision = await Promise.race([this.asks.ask(event, decision), denied]);
    }
    return { allowed: decision.decision === "allow", event, decision };
  }

  preview(draft: Draft): Verdict {
    const { event, decision } = this.#policy.evaluate(this.#eventOf(draft));
    return { allowed: decision.decision === "allow", event, decision };
  }

  review(event: Event): Decision {
    const { decision } = this.#policy.evaluate(event);
    const entry = this.#entryOf(event);
    if (entry && decision.decision === "block") entry.decision = decision;
    return decision;
  }

  refuse(draft: Draft, { id, reason, remedy }: Refusal): Verdict {
    const event = this.#eventOf(draft);
    const decision: Decision = {
      event_id: event.common.event_id,
      decision: "block",
      rule: { id, name: id, layer: "none", reason },
      matched_fields: [],
      rewrites: [],
      evaluated: 0,
      near_misses: [],
      ...(remedy !== undefined && { remedy }),
    };
    this.#keep({ event, decision });
    return { allowed: false, event, decision };
  }

  observe(draft: Draft): Event {
    const event = this.#eventOf(draft);
    this.#keep({ event });
    return event;
  }

  finish(event: Event, outcome: Outcome): void {
    const entry = this.#entryOf(event);
    if (!entry) throw new Error(`finish of an event that nobody decided on: ${JSON.stringify(event)}`);
    if (entry.outcome) throw new Error(`the event ended twice: ${JSON.stringify(event)}`);
    entry.outcome = outcome;
  }

  #keep(entry: GateEntry): void {
    this.entries.push(entry);
    this.#byId.set(entry.event.common.event_id, entry);
  }

  #entryOf({ common: { event_id } }: Event): GateEntry | undefined {
    return this.#byId.get(event_id);
  }

  #eventOf(draft: Draft): Event {
    return {
      schema_version: 1,
      ...draft,
      common: {
        event_id: newEventId(),
        session_id: "session",
        vm_id: "vm",
        profile_id: "code",
        profile_revision: "1.0.0",
        timestamp_unix_ms: Date.now(),
        sequence: this.entries.length + 1,
        enforceability: "inline_blockable",
        actor: "vm",
        labels: {},
        ...draft.common,
      },
    };
  }
}
