/** The way of an event through the gate: its decision, its response and its end. */
import { type Event, familyOf } from "../../event/mod.ts";
import type { Decision, Outcome, Passage, Policy } from "../../policy/mod.ts";

/** The end of an event, with the times of its passage in `ms` since the decision. */
export interface TimedOutcome extends Outcome {
  first_byte_ms?: number;
  duration_ms: number;
  streamed_bytes?: number;
}

/** The part of the gate that a passage goes back to. */
interface PassageGate {
  /** an event may have its effect */
  opened(event: Event): void;
  /** @returns the decision that blocks the response */
  reviewResponse(event: Event, response: unknown, findings: ReadonlySet<string>): Decision | undefined;
  recordEnd(event: Event, outcome: TimedOutcome): void;
  /** @throws {SbxError} `policy.blocked` */
  countSent(event: Event, bytes: number): void;
  /** @throws {SbxError} `policy.blocked` */
  requireOpen(event: Event): void;
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
  /** `bytes` that went out after the decision, which did not know of them */
  #streamedBytes = 0;
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

  requireOpen(): void {
    this.#gate.requireOpen(this.event);
  }

  markFirstByte(): void {
    this.#firstByteMs ??= performance.now() - this.#decidedAt;
  }

  countSent(bytes: number): void {
    this.#gate.countSent(this.event, bytes);
    this.#streamedBytes = bytes;
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
      ...(this.#streamedBytes > 0 && { streamed_bytes: this.#streamedBytes }),
    });
  }
}

/** Families whose events have a response. */
export const RESPONDING: ReadonlySet<string> = new Set(["http", "dns", "db", "mcp", "model"]);

/** Families whose responses some rule reads. */
export function reviewedFamilies({ rules }: Policy): ReadonlySet<string> {
  const paths = rules.flatMap(({ paths }) => paths);
  return new Set(
    [...RESPONDING].filter((family) => paths.some((path) => path.startsWith(`${family}.response.`))),
  );
}

/** A copy of the event with the response in the object of its family. */
export function withResponse(event: Event, response: unknown): Event {
  const family = familyOf(event.common.event_type);
  return { ...event, [family]: { ...event[family], response } } as Event;
}

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
