/** The product's gate, over rules and detections that are real, with a record in memory. */
import type { DetectionIr } from "../../lib/detection/mod.ts";
import type { Event, Finding, HttpEvent, McpEvent, ModelEvent } from "../../lib/event/mod.ts";
import {
  type GateOptions,
  type Recorder,
  SessionGate,
  type SessionNotice,
} from "../../lib/session/gate/mod.ts";
import type { LedgerEntry, LedgerOutcome } from "../../lib/ledger/mod.ts";
import { parseRules } from "../../lib/policy/author/mod.ts";
import { compilePolicy, type Decision } from "../../lib/policy/mod.ts";

/** File of the rules, as a path of the host. */
export const RULES_FILE = "/home/ann/.sbx/profiles/code/profile.toml";

/** The session of every event that these gates make. */
export const SESSION = { id: "session-1", profile_id: "code", profile_revision: "1.2.3" };

/** The record of one event. */
export interface GateEntry {
  event: Event;
  /** the last one: after a person's answer, or after the response */
  decision?: Decision;
  findings: Finding[];
  /** how it ended, without the decision; absent while it goes on, and for what was blocked */
  outcome?: Omit<LedgerOutcome, "event_id" | "decision">;
}

/** The answer of a request that is on record. */
export function httpResponse({ outcome }: GateEntry): NonNullable<HttpEvent["response"]> {
  return outcome!.response as NonNullable<HttpEvent["response"]>;
}

/** The answer of a model's call that is on record. */
export function modelResponse({ outcome }: GateEntry): NonNullable<ModelEvent["response"]> {
  return outcome!.response as NonNullable<ModelEvent["response"]>;
}

/** The answer of an MCP server that is on record. */
export function mcpResponse({ outcome }: GateEntry): NonNullable<McpEvent["response"]> {
  return outcome!.response as NonNullable<McpEvent["response"]>;
}

/**
 * A record in memory. An event that ends twice, that was blocked and ends, or that was never recorded is a
 * problem, which `entries` throws: the gate itself only logs what a recorder throws.
 */
export class MemoryRecorder implements Recorder {
  readonly #entries: GateEntry[] = [];
  readonly #problems: string[] = [];
  readonly #byId = new Map<string, GateEntry>();
  readonly #ended = new Set<string>();

  /** In the order of the events. @throws {Error} when an end was recorded that cannot be */
  get entries(): GateEntry[] {
    if (this.#problems.length > 0) throw new Error(this.#problems.join("; "));
    return this.#entries;
  }

  append({ event, decision, findings = [] }: LedgerEntry): void {
    event.common.sequence = this.#entries.length + 1;
    const entry = structuredClone({ event, decision, findings }) as GateEntry;
    this.#entries.push(entry);
    this.#byId.set(event.common.event_id, entry);
  }

  end({ event_id, decision, ...outcome }: LedgerOutcome): void {
    const entry = this.#byId.get(event_id);
    if (!entry) return void this.#problems.push(`the end of ${event_id}, which was never recorded`);
    if (this.#ended.has(event_id)) this.#problems.push(`a second end of ${JSON.stringify(entry.event)}`);
    if (entry.decision?.decision === "block") {
      this.#problems.push(`the end of a blocked ${JSON.stringify(entry.event)}`);
    }
    this.#ended.add(event_id);
    if (decision) entry.decision = decision as Decision;
    if (Object.keys(outcome).length > 0) entry.outcome = structuredClone(outcome);
  }

  add(): void {}

  requireWritable(): void {}
}

/** A gate whose record a test reads. */
export class TestGate extends SessionGate {
  readonly #recorder: MemoryRecorder;
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
      policy: compilePolicy(parseRules(rules, RULES_FILE)),
      detections,
      recorder,
      tell: (notice) => notices.push(notice),
      scrubValue: (value) => value,
      ...options,
    });
    this.#recorder = recorder;
    this.notices = notices;
  }

  /** In the order of the events. @throws {Error} see {@linkcode MemoryRecorder} */
  get entries(): GateEntry[] {
    return this.#recorder.entries;
  }
}
