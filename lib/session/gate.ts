import type { DetectionFinding, RuleCounter } from "../detection/mod.ts";
import { type Event, type EventCommon, familyOf, newEventId } from "../event/mod.ts";
// Not the whole of lib/ledger: what reads loads the database, which this thread never needs.
import { Ledger } from "../ledger/ledger.ts";
import { log } from "../base/log/mod.ts";
import {
  type Ask,
  AskQueue,
  type Decision,
  type Draft,
  type Evaluation,
  type Gate,
  type Outcome,
  type Policy,
  type PolicyFinding,
  type Refusal,
  type Verdict,
} from "../policy/mod.ts";
import { decoyFinding } from "./decoy.ts";
import { Detector } from "./detector.ts";
import { type Contract, detectionsOf } from "./files/contract.ts";
import { policyOf } from "./policy.ts";
import type { SessionPaths } from "./files/paths.ts";
import type { VmRecord } from "./files/record.ts";
import {
  ANSWERED,
  failureFinding,
  reviewedFamilies,
  unreviewed,
  verdictOf,
  withResponse,
} from "./verdict.ts";

/** What a session tells whoever watches it. */
export type SessionNotice =
  | { type: "security-event"; payload: { event: Event; decision?: Decision } }
  | { type: "finding"; payload: Finding }
  | { type: "ask"; payload: Ask };

/** What policy or a detection says of an event. */
export type Finding = PolicyFinding | DetectionFinding;

/** What a gate needs of its session. */
export interface GateOptions {
  paths: Pick<SessionPaths, "ledger">;
  record: Pick<VmRecord, "id" | "profile_id" | "profile_revision">;
  contract: Contract;
  tell(notice: SessionNotice): void;
  /** text with refs in place of secrets; also right for JSON */
  scrub(text: string): string;
  /** the ledger could not be written: until it can, every event is refused */
  onLedgerFailure(error: Error): void;
}

/** Families whose parsers put refs in place of secrets themselves, where the bytes are. */
const SCRUBBED = new Set(["http", "model", "credential"]);

/** The gate of one session: completes drafts, asks the rules, waits for people, and writes everything down first. */
export class SessionGate implements Gate {
  readonly asks: AskQueue;
  readonly ledger: Ledger;
  #options: GateOptions;
  #policy: Policy;
  #detector: Detector;
  /** families of which some rule looks at responses: no answer of another one needs a second look */
  #reviewed: ReadonlySet<string>;
  // An event that gets a response, or a rewrite, is a copy of it; its `common` stays the same object.
  /** events that were decided on once more, by a person or after their response: how they end is where that is written */
  #answered = new WeakMap<EventCommon, Decision>();
  /** ids of what the rules found in an event before its response was there */
  #found = new WeakMap<EventCommon, Set<string>>();

  private constructor(options: GateOptions, ledger: Ledger, policy: Policy, detector: Detector) {
    this.#options = options;
    this.ledger = ledger;
    this.#policy = policy;
    this.#detector = detector;
    this.#reviewed = reviewedFamilies(policy);
    this.asks = new AskQueue({
      onAsk: (payload) => options.tell({ type: "ask", payload }),
      onResolved: (record) => {
        this.#safely(() => ledger.add({ rows: [{ table: "approvals", record }] }));
        options.tell({ type: "ask", payload: record });
      },
    });
  }

  /** @throws {SbxError} `policy.invalid`, or what opening the ledger throws */
  static async open(options: GateOptions): Promise<SessionGate> {
    const { paths, record, contract } = options;
    const policy = policyOf(contract);
    const detector = new Detector(detectionsOf(contract));
    const ledger = await Ledger.open(paths.ledger, {
      sessionId: record.id,
      maxBytes: contract.ledger.max_bytes,
      onError: (error) => options.onLedgerFailure(error),
    });
    return new SessionGate(options, ledger, policy, detector);
  }

  /** Puts other rules and detections in force. @throws {SbxError} `policy.invalid`, `detection.conflict`: those that were stay */
  use(contract: Contract): void {
    const policy = policyOf(contract);
    this.#detector = new Detector(detectionsOf(contract), this.#detector);
    this.#policy = policy;
    this.#reviewed = reviewedFamilies(policy);
  }

  /** What each rule of detection has found. */
  counters(): RuleCounter[] {
    return this.#detector.counters();
  }

  decide(draft: Draft, signal?: AbortSignal): Verdict | Promise<Verdict> {
    const evaluation = this.#policy.evaluate(this.#complete(draft));
    const { event } = evaluation;
    const decision = this.#clean(event, evaluation.decision);
    this.#append(event, decision, evaluation);
    return decision.decision === "ask"
      ? this.#asked(event, decision, signal)
      : verdictOf({ event, decision });
  }

  async #asked(event: Event, asked: Decision, signal?: AbortSignal): Promise<Verdict> {
    const answer = await this.#ask(this.#kept(event), asked, signal);
    // Who let it go must be on record before it happens.
    if (answer === "allow") this.ledger.requireWritable();
    const decision: Decision = { ...asked, decision: answer };
    if (answer === "allow" && ANSWERED.has(familyOf(event.common.event_type))) {
      this.#answered.set(event.common, decision);
    } else this.#end(event, { decision });
    return verdictOf({ event, decision });
  }

  preview(draft: Draft): Verdict {
    return verdictOf(this.#policy.evaluate(this.#complete(draft)));
  }

  review(event: Event): Decision {
    const family = familyOf(event.common.event_type);
    if (!this.#reviewed.has(family)) return unreviewed(event);
    const { findings, failures, ...evaluated } = this.#policy.evaluate(event);
    const decision = this.#clean(event, evaluated.decision);
    const known = this.#found.get(event.common);
    const all = [...findings, ...failures.map(failureFinding)];
    this.report(all.filter(({ finding_id }) => !known?.has(finding_id)));
    if (decision.decision === "block") this.#answered.set(event.common, decision);
    return decision;
  }

  refuse(draft: Draft, { id, reason, remedy }: Refusal): Verdict {
    const event = this.#complete(draft);
    const decision: Decision = {
      decision: "block",
      evaluated: 0,
      event_id: event.common.event_id,
      matched_fields: [],
      near_misses: [],
      ...(remedy !== undefined && { remedy }),
      rewrites: [],
      rule: { id, layer: "default", name: id, reason },
    };
    this.#append(event, decision);
    return { allowed: false, event, decision };
  }

  observe(draft: Draft): Event {
    const event = this.#complete({
      ...draft,
      common: { enforceability: "observe_only", ...draft.common },
    });
    this.#append(event);
    return event;
  }

  finish(event: Event, outcome: Outcome): void {
    const answered = this.#answered.get(event.common);
    this.#answered.delete(event.common);
    const ended = this.#clean(event, { ...(answered && { decision: answered }), ...outcome });
    this.#end(event, ended);
    const { response } = ended;
    if (response !== undefined) {
      this.report(this.#detector.answered(withResponse(this.#kept(event), response)));
    }
  }

  async close(): Promise<void> {
    this.asks.close();
    await this.ledger.close();
  }

  #complete({ common, ...family }: Draft): Event {
    const { id, profile_id, profile_revision } = this.#options.record;
    const { event_type, source_engine, enforceability, actor, labels, process, trace_id } = common;
    // In the order of canonical JSON, which then has nothing to sort.
    return {
      common: {
        actor: actor ?? "vm",
        enforceability: enforceability ?? "inline_blockable",
        event_id: newEventId(),
        event_type,
        labels: labels ?? {},
        ...(process && { process }),
        profile_id,
        profile_revision,
        sequence: 0,
        session_id: id,
        source_engine,
        timestamp_unix_ms: Date.now(),
        ...(trace_id !== undefined && { trace_id }),
        vm_id: id,
      },
      ...family,
      schema_version: 1,
    };
  }

  /** What is kept and told of an event. What is done is done with the event itself. */
  #kept(event: Event): Event {
    const family = familyOf(event.common.event_type);
    const own = this.#clean(event, event[family]);
    return own === event[family] ? event : { ...event, [family]: own };
  }

  /** What is said of an event, with refs in place of secrets (contracts.md §9). */
  #clean<T>(event: Event, said: T): T {
    if (said === undefined || SCRUBBED.has(familyOf(event.common.event_type))) return said;
    const text = JSON.stringify(said);
    const scrubbed = this.#options.scrub(text);
    return scrubbed === text ? said : JSON.parse(scrubbed);
  }

  /** @param decision without secrets already */
  #append(whole: Event, decision?: Decision, evaluation?: Evaluation): void {
    const event = this.#kept(whole);
    const findings = evaluation ? [...evaluation.findings, ...evaluation.failures.map(failureFinding)] : [];
    this.ledger.append({ event, ...(decision && { decision }), findings });
    this.#options.tell({ type: "security-event", payload: { event, ...(decision && { decision }) } });
    for (const payload of findings) this.#options.tell({ type: "finding", payload });
    if (findings.length) this.#found.set(event.common, new Set(findings.map(({ finding_id }) => finding_id)));
    const decoy = decoyFinding(event);
    if (decoy) this.report([decoy]);
    this.report(this.#detector.appended(event));
  }

  #ask(event: Event, decision: Decision, signal?: AbortSignal): Promise<"allow" | "block"> {
    const answer = this.asks.ask(event, decision);
    if (!signal) return answer;
    const askId = `ask-${event.common.event_id}`;
    const withdraw = () => this.asks.withdraw(askId);
    if (signal.aborted) withdraw();
    signal.addEventListener("abort", withdraw);
    return answer.finally(() => signal.removeEventListener("abort", withdraw));
  }

  /** Puts findings into the ledger and tells of them. */
  report(findings: Finding[]): void {
    if (!findings.length) return;
    this.#safely(() => this.ledger.add({ findings }));
    for (const payload of findings) this.#options.tell({ type: "finding", payload });
  }

  #end({ common: { event_id } }: Event, outcome: Record<string, unknown> & { decision?: Decision }): void {
    this.#safely(() => this.ledger.end({ event_id, ...outcome }));
  }

  /** What has happened cannot be undone; the ledger reports its failure by itself, and refuses what comes next. */
  #safely(write: () => void): void {
    try {
      write();
    } catch (error) {
      log((error as Error).message);
    }
  }
}
