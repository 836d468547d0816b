import type { Event } from "../../event/mod.ts";
import type { Decision, Outcome, Passage } from "../../policy/mod.ts";

/** The end of an event, with the times of its passage in `ms` since the decision. */
export interface TimedOutcome extends Outcome {
  first_byte_ms?: number;
  duration_ms: number;
}

/** The part of the gate that a passage goes back to. */
export interface PassageGate {
  /** an event may have its effect */
  opened(event: Event): void;
  /** @returns the decision that blocks the response */
  reviewResponse(event: Event, response: unknown, findings: ReadonlySet<string>): Decision | undefined;
  recordEnd(event: Event, outcome: TimedOutcome): void;
  /** @throws {SbxError} `policy.blocked` */
  countSent(event: Event, bytes: number): void;
}

/** A decided event. */
export interface Decided {
  event: Event;
  decision: Decision;
  /** ids of the findings that the rules made before the response */
  findings: ReadonlySet<string>;
  /** a person's answer that is recorded with the end of the event */
  answer?: Decision;
}

/** The passage of one event through the gate of its session. */
export class EventPassage implements Passage {
  readonly event: Event;
  readonly decision: Decision;
  readonly #gate: PassageGate;
  readonly #findings: ReadonlySet<string>;
  /** the decision of after the one on record */
  #laterDecision?: Decision;
  readonly #decidedAt = performance.now();
  #firstByteMs?: number;
  #reviewed = false;
  #finished = false;

  constructor(gate: PassageGate, { event, decision, findings, answer }: Decided) {
    this.#gate = gate;
    this.event = event;
    this.decision = decision;
    this.#findings = findings;
    this.#laterDecision = answer;
    if (this.allowed) gate.opened(event);
  }

  get allowed(): boolean {
    return this.decision.decision === "allow";
  }

  markFirstByte(): void {
    this.#firstByteMs ??= performance.now() - this.#decidedAt;
  }

  countSent(bytes: number): void {
    this.#gate.countSent(this.event, bytes);
  }

  review(response: unknown): Decision | undefined {
    if (this.#reviewed) throw new Error(`event ${this.event.common.event_id} was reviewed before`);
    this.#reviewed = true;
    const block = this.#gate.reviewResponse(this.event, response, this.#findings);
    if (block) this.#laterDecision = block;
    return block;
  }

  finish(outcome: Outcome = {}): void {
    if (this.#finished) return;
    this.#finished = true;
    this.#gate.recordEnd(this.event, {
      ...(this.#laterDecision && { decision: this.#laterDecision }),
      ...outcome,
      ...(this.#firstByteMs !== undefined && { first_byte_ms: this.#firstByteMs }),
      duration_ms: performance.now() - this.#decidedAt,
    });
  }
}
