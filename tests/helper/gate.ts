/** The product's gate, over rules and detections that are real, with a record in memory. */
import type { DetectionIr } from "../../lib/detection/mod.ts";
import type { Event } from "../../lib/event/mod.ts";
import { type GateOptions, type Recorder, SessionGate, type SessionNotice } from "../../lib/gate/mod.ts";
import type { LedgerEntry, LedgerOutcome } from "../../lib/ledger/mod.ts";
import { parseRules } from "../../lib/policy/author/mod.ts";
import { compilePolicy, type Decision, type PolicyFinding } from "../../lib/policy/mod.ts";

/** The session of every event that these gates make. */
export const SESSION = { id: "session-1", profile_id: "code", profile_revision: "1.2.3" };

/** The record of one event. */
export interface GateEntry {
  event: Event;
  /** the last one: after a person's answer, or after the response */
  decision?: Decision;
  findings: PolicyFinding[];
  /** how it ended, without the decision; absent while it goes on, and for what was blocked */
  outcome?: Omit<LedgerOutcome, "event_id" | "decision">;
}

/** A record in memory. An event that ends twice, or without being recorded, fails the test that makes it. */
export class MemoryRecorder implements Recorder {
  /** in the order of the events */
  readonly entries: GateEntry[] = [];
  readonly #byId = new Map<string, GateEntry>();
  readonly #ended = new Set<string>();

  append({ event, decision, findings = [] }: LedgerEntry): void {
    event.common.sequence = this.entries.length + 1;
    const entry = structuredClone({ event, decision, findings }) as GateEntry;
    this.entries.push(entry);
    this.#byId.set(event.common.event_id, entry);
  }

  end({ event_id, decision, ...outcome }: LedgerOutcome): void {
    const entry = this.#byId.get(event_id);
    if (!entry) throw new Error(`the end of ${event_id}, which was never recorded`);
    if (this.#ended.has(event_id)) throw new Error(`a second end of ${JSON.stringify(entry.event)}`);
    this.#ended.add(event_id);
    if (decision) entry.decision = decision as Decision;
    if (Object.keys(outcome).length > 0) entry.outcome = structuredClone(outcome);
  }

  add(): void {}

  requireWritable(): void {}
}

/** A gate whose record a test reads. */
export class TestGate extends SessionGate {
  readonly entries: GateEntry[];
  readonly notices: SessionNotice[];

  /** @param rules TOML: `[corp.rules.<id>]`, `[profiles.rules.<id>]`, `[default.<id>]` */
  constructor(
    rules = "",
    { detections = [], ...options }: Partial<GateOptions> & { detections?: DetectionIr[] } = {},
  ) {
    const recorder = new MemoryRecorder();
    const notices: SessionNotice[] = [];
    super({
      session: SESSION,
      policy: compilePolicy(parseRules(rules, "rules.toml")),
      detections,
      recorder,
      tell: (notice) => notices.push(notice),
      scrub: (text) => text,
      ...options,
    });
    this.entries = recorder.entries;
    this.notices = notices;
  }
}
