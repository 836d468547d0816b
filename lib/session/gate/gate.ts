/** The gate of a session, which every event passes: decided on, recorded, then carried out. */
import { SbxError } from "../../base/error/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import { log } from "../../base/log/mod.ts";
import type { Compiled, RuleCounter } from "../../detection/mod.ts";
import {
  type Bill,
  Budget,
  type BudgetOptions,
  type LaterUse,
  type Limit,
  type Spending,
} from "../../policy/budget/mod.ts";
import {
  type CredentialSubstitution,
  type Event,
  familyOf,
  type Finding,
  newEventId,
} from "../../event/mod.ts";
import {
  type Ask,
  AskQueue,
  type Decision,
  type Draft,
  type EvaluateOptions,
  type Evaluation,
  failedEvaluation,
  type Gate,
  GUARD_EVALUATION,
  guardDecision,
  History,
  type KnownHosts,
  type Outcome,
  type Policy,
  type Refusal,
  type Rule,
  type Verdict,
} from "../../policy/mod.ts";
import {
  type Decided,
  EventActivity,
  EventPassage,
  RESPONDING,
  type TimedOutcome,
  withResponse,
} from "./passage.ts";
import { DECOY_REFUSAL, decoyDraft, decoyEvaluation } from "./decoy.ts";
import { Redactor } from "./redact.ts";
import { type EventHold, heldEvaluation } from "./held.ts";
import { budgetFinding, limited, spendingRow } from "./limited.ts";
import { outlineOf } from "./outline.ts";
import {
  credentialFindings,
  Detector,
  type ExportRoutes,
  failureFinding,
  RulesInForce,
} from "./active_rules.ts";
import type { LedgerEntry, LedgerFinding, LedgerOutcome, LedgerRow } from "../../ledger/mod.ts";

/** Fails closed: nothing is known about contacts elsewhere. */
const NOT_KNOWN: KnownHosts = {
  has() {
    throw new Error("nothing is known about contacts elsewhere");
  },
};

/** The parts that a gate is built from. */
export interface GateOptions {
  /** the session, as its events name it */
  session: {
    id: string;
    profile_id: string;
    profile_revision: string;
    /** user of the host whose VM it is */
    user_id?: string;
    /** labels of every event */
    labels?: Record<string, string>;
  };
  policy: Policy;
  /** earlier events of the session; absent: it is new */
  history?: History;
  /** hosts that others have contacted; absent: no rule gets an answer about them */
  known?: KnownHosts;
  detections: readonly Compiled[];
  exportRoutes?: ExportRoutes;
  recorder: Recorder;
  tell(notice: SessionNotice): void;
  /** work to wait for before an allowed event happens; never rejects */
  before?(event: Event): Promise<void> | undefined;
  /** an allowed event has ended, with its response if it had one */
  ended?(event: Event, response: unknown): void;
  /** the use of a decoy in an event that no filter of the network sees; its event is refused */
  decoyIn?(event: Event): CredentialSubstitution | undefined;
  /** takes findings, and holds events back after them */
  hold?: EventHold;
  /** replaces secrets by refs in all texts of a value, also split ones; the same value if it has none */
  scrubValue<T>(value: T): T;
}

/** Terms that accompany rules. */
interface RuleTerms {
  exportRoutes?: ExportRoutes;
  /** absent: as before */
  profileRevision?: string;
  known?: KnownHosts;
}

/** An event that is on record. */
interface RecordedEvent {
  event: Event;
  decision?: Decision;
  /**
   * time in `ms` from the event to its first decision and the record of both; absent where no rule decided
   */
  decided_ms?: number;
}

/** News of a session for its watchers. */
export type SessionNotice =
  | { type: "security-event"; payload: RecordedEvent }
  | { type: "finding"; payload: Finding }
  | { type: "ask"; payload: Ask };

/** @param began of its evaluation, by `performance.now()` */
function recordedOf(event: Event, decision?: Decision, began?: number): RecordedEvent {
  return {
    event,
    ...(decision && { decision }),
    ...(began !== undefined && { decided_ms: performance.now() - began }),
  };
}

/** The record that a gate writes; the session's ledger is one. */
export interface Recorder {
  /**
   * Records an event with its decision and findings.
   *
   * @throws {SbxError} `ledger.unavailable` when an earlier record could not be written: fail closed
   */
  append(entry: LedgerEntry): void;
  /** Records the end of an event. @throws {SbxError} `ledger.unavailable` */
  end(outcome: LedgerOutcome): void;
  /** Records rows without a new event. @throws {SbxError} `ledger.unavailable` */
  add(extra: { findings?: readonly LedgerFinding[]; rows?: readonly LedgerRow[] }): void;
  /** @throws {SbxError} `ledger.unavailable` while records cannot be written */
  requireWritable(): void;
}

/**
 * The gate of one session: completes drafts, evaluates the rules, waits for people,
 * and records before any effect.
 */
export class SessionGate implements Gate {
  readonly asks: AskQueue;
  readonly activity = new EventActivity();
  readonly #options: GateOptions;
  readonly #recorder: Recorder;
  readonly #redactor: Redactor;
  #rules: RulesInForce;
  #detector: Detector;
  #profileRevision: string;
  #budget?: Budget;
  readonly #history: History;
  readonly budgetUses = () => this.#budget?.uses() ?? [];
  readonly #passages = this.activity.following({
    reviewResponse: (...review) => this.#reviewResponse(...review),
    recordEnd: (event, outcome) => this.#recordEnd(event, outcome),
    countSent: (event, bytes) => this.#countSent(event, bytes),
    requireOpen: (event) => this.#requireOpen(event),
  });

  /** @throws {SbxError} `detection.conflict` */
  constructor(options: GateOptions) {
    this.#recorder = (this.#options = options).recorder;
    this.#redactor = new Redactor((value) => options.scrubValue(value));
    this.#rules = new RulesInForce(options.policy, options.detections);
    this.#history = options.history ?? new History(options.policy.counters);
    this.#history.known = options.known ?? NOT_KNOWN;
    this.#detector = new Detector(options.detections, options.exportRoutes);
    this.#profileRevision = options.session.profile_revision;
    this.asks = new AskQueue({
      onAsk: (payload) => this.#tell({ type: "ask", payload }),
      onResolved: (record) => {
        this.#safely(() => this.#recorder.add({ rows: [{ table: "approvals", record }] }));
        this.#tell({ type: "ask", payload: record });
      },
    });
  }

  /**
   * Replaces rules and detections, and the revision that events name.
   * @throws {SbxError} `detection.conflict`: the ones before stay
   */
  use(policy: Policy, detections: readonly Compiled[], terms: RuleTerms = {}): void {
    this.#detector = new Detector(detections, terms.exportRoutes, this.#detector);
    this.#profileRevision = terms.profileRevision ?? this.#profileRevision;
    this.#rules = new RulesInForce(policy, detections);
    this.#history.use(policy.counters, Date.now());
    if (terms.known) this.#history.known = terms.known;
    this.asks.decideAgain();
  }

  /** Limits the session's use; use so far already counts. @param options of the first time, but the terms */
  useBudget(options: Omit<BudgetOptions, "notice" | "record">): void {
    const notice = (event: Event, text: string) => this.report([budgetFinding(event, text)]);
    if (this.#budget) return this.#budget.use(options.terms);
    const record = (spending: Spending) => this.#recorder.add({ rows: [spendingRow(spending)] });
    this.#budget = new Budget({ ...options, notice, record });
  }

  /** Puts the minutes of the session on record. */
  recordMinutes(): void {
    const minutes = this.#budget?.minutes;
    if (minutes !== undefined) this.#safely(() => this.#recorder.add({ rows: [spendingRow({ minutes })] }));
  }

  /** Findings so far of each detection rule. */
  counters(): RuleCounter[] {
    return this.#detector.counters();
  }

  async decide(
    draft: Draft,
    signal?: AbortSignal,
    waits?: (ask: Ask) => void,
    heldMs?: number,
  ): Promise<EventPassage> {
    const complete = this.#complete(draft);
    const asking = { signal, waits, heldMs };
    const passage = this.#budget
      ? await this.#decideWithin(this.#budget, { event: complete, bill: draft.bill }, asking)
      : await this.#decide(complete, undefined, asking);
    if (passage.allowed) await this.#options.before?.(passage.event);
    return passage;
  }

  /** Decides on an event that may use up a budget, after reserving its possible cost. */
  async #decideWithin(
    budget: Budget,
    { event: complete, bill }: { event: Event; bill: Bill | undefined },
    asking: Asking,
  ): Promise<EventPassage> {
    const reserved = await budget.reserve(complete, bill, asking.signal);
    let passage: EventPassage | undefined;
    try {
      passage = await this.#decide(complete, reserved?.limit, asking);
      if (passage.allowed) reserved?.take();
      return passage;
    } finally {
      if (!passage?.allowed && !reserved?.limit) reserved?.release();
    }
  }

  async #decide(
    complete: Event,
    limit: Limit | undefined,
    asking: Asking,
  ): Promise<EventPassage> {
    let rules = this.#rules;
    const { event, decision, decider, ...first } = this.#evaluate(complete, limit);
    let { findings } = first;
    if (decision.decision !== "ask") return new EventPassage(this.#passages, { event, decision, findings });
    const shown = this.#redactor.event(event);
    const timeout = decider?.ask_timeout;
    let made: Finding[] = [];
    const again = () => {
      const found = this.#again(complete, event, limit);
      made = found?.findings ?? [];
      return found?.decision;
    };
    const decided = (by: Decision) => {
      rules = this.#rules;
      this.report(made.filter(({ finding_id }) => !findings.has(finding_id)));
      // Its response is reviewed without them.
      findings = new Set([...findings, ...made.map(({ finding_id }) => finding_id)]);
      // The next event that is decided again has this one in its history.
      if (by.decision === "allow") this.#history.record(event);
    };
    let answer = await askPerson(this.asks, event, decision, { timeout, shown, again, decided, ...asking });
    // The rules may have changed meanwhile, and no answer undoes a block.
    const later = rules === this.#rules
      ? undefined
      : this.#rules.policy.evaluate(complete, this.#past).decision;
    if (later?.decision === "block") {
      answer = this.#redactor.decision(later, complete, this.#redactor.event(complete));
    }
    answer = this.#heldDecision(complete) ?? answer;
    if (answer.decision === "allow") {
      if (answer.answered?.by_rule === undefined) this.#history.record(event);
      // The allowance must be on record before the effect.
      this.#recorder.requireWritable();
      if (RESPONDING.has(familyOf(event.common.event_type))) {
        return new EventPassage(this.#passages, { event, decision: answer, findings, answer });
      }
    }
    this.#end(event, { decision: answer });
    return new EventPassage(this.#passages, { event, decision: answer, findings });
  }

  /**
   * The decision of the rules of now on an event that waits.
   *
   * @param event as it was decided on, with rewrites; rules that rewrite it otherwise leave it to the person
   */
  #again(
    complete: Event,
    event: Event,
    limit: Limit | undefined,
  ): { decision: Decision; findings: Finding[] } | undefined {
    try {
      const past = this.#rules.policy.evaluate(complete, this.#past);
      const { decision, event: rewritten } = this.#held(limited(past, limit), complete);
      if (decision.decision === "allow" && !isSameEvent(event, rewritten)) return undefined;
      return {
        decision: this.#redactor.decision(decision, rewritten, this.#redactor.event(rewritten)),
        findings: this.#findingsOf(past),
      };
    } catch (error) {
      log.error(`an event that waits is left to the person: ${(error as Error).message}`);
      return undefined;
    }
  }

  reads(part: string): boolean {
    return this.#rules.policy.reads(part);
  }

  /** Rules that concern programs of the guest and their files. */
  get guestRules(): Pick<
    Policy,
    "restrictsPrograms" | "restrictsFiles" | "decidesByFile" | "needsArguments"
  > {
    return this.#rules.policy;
  }

  get countsModels(): boolean {
    return this.#budget?.countsModels ?? false;
  }

  awaitsUse(key: string): boolean {
    return this.#budget?.awaits(key) ?? false;
  }

  correctUse(use: LaterUse): void {
    this.#safely(() => this.#budget?.correct(use));
  }

  preview(draft: Draft, explain = false): Verdict & Evaluation {
    const complete = this.#complete(draft);
    const past = { ...this.#past, explain };
    const found = this.#held(this.#rules.policy.evaluate(complete, past), complete);
    return { ...found, allowed: found.decision.decision === "allow" };
  }

  refuse(draft: Draft, refusal: Refusal): Decision {
    const event = this.#complete(draft);
    // A reason may quote the guest's bytes.
    const decision = this.#redactor.value(guardDecision(event.common.event_id, refusal));
    try {
      this.#append(event, decision);
    } catch (error) {
      if (error instanceof SbxError) throw error;
      this.#append(outlineOf(event), decision);
    }
    return decision;
  }

  observe(draft: Draft, outcome?: Outcome): Event {
    const event = this.#complete({ ...draft, common: { enforceability: "observe_only", ...draft.common } });
    this.#append(event);
    this.#history.record(event);
    const { use, ...end } = outcome ?? {};
    if (outcome) this.#end(event, this.#redactor.outcome(event, end));
    const seen = use ?? { complete: end.error === undefined };
    this.#safely(() => this.#budget?.settle(event, end.response, seen, draft.bill));
    return event;
  }

  /** Records findings, reports and answers them. */
  report(findings: readonly Finding[]): void {
    if (!findings.length) return;
    this.#safely(() => this.#recorder.add({ findings }));
    this.#found(findings);
  }

  #found(findings: readonly Finding[]): void {
    for (const payload of findings) this.#tell({ type: "finding", payload });
    this.#options.hold?.found(findings);
  }

  /** An evaluation of an event that a finding may hold back. */
  #held(evaluation: Evaluation, event: Event): Evaluation {
    const held = this.#options.hold?.of(event);
    return held ? heldEvaluation(evaluation, event, held) : evaluation;
  }

  /** The block of an event that was allowed before a finding. */
  #heldDecision(event: Event): Decision | undefined {
    const held = this.#options.hold?.of(event);
    return held?.on === "block" ? guardDecision(event.common.event_id, held.refusal) : undefined;
  }

  /** Denies every ask that waits. */
  close(): void {
    this.asks.close();
  }

  get #past(): EvaluateOptions {
    return { history: this.#history };
  }

  #complete(draft: Draft): Event {
    return completeDraft(draft, this.#options.session, this.#profileRevision);
  }

  /**
   * Evaluates the rules and records the event. One that cannot be recorded as it
   * is: a block, over its outline.
   */
  #evaluate(complete: Event, limit: Limit | undefined): Decided & { decider?: Rule } {
    const began = performance.now();
    const decoy = this.#options.decoyIn?.(complete);
    const evaluation = decoy
      ? decoyEvaluation(complete)
      : this.#held(limited(this.#rules.policy.evaluate(complete, this.#past), limit), complete);
    const { event } = evaluation;
    try {
      const redacted = this.#redactor.event(event);
      const decision = this.#redactor.decision(evaluation.decision, event, redacted);
      const findings = this.#append(event, decision, { ...evaluation, began }, redacted);
      if (decoy) this.refuse(decoyDraft(complete, decoy), DECOY_REFUSAL);
      if (decision.decision === "allow") this.#history.record(event);
      return { event, decision, decider: evaluation.decider, findings };
    } catch (error) {
      if (error instanceof SbxError) {
        throw recordRefusal(this.#recorder, () => this.#redactor.event(event), error);
      }
      const outline = outlineOf(event);
      const failed = failedEvaluation(outline, error);
      const decision = this.#redactor.value(failed.decision);
      return { event: outline, decision, findings: this.#append(outline, decision, failed) };
    }
  }

  /**
   * @param decision without secrets
   * @returns ids of the findings that the rules made
   */
  #append(
    whole: Event,
    decision?: Decision,
    evaluation?: Evaluation & { began?: number },
    redacted = this.#redactor.event(whole),
  ): ReadonlySet<string> {
    const event = this.#answered(redacted);
    const findings = evaluation ? this.#findingsOf(evaluation) : [];
    this.#recorder.append({ event, ...(decision && { decision }), findings });
    whole.common.sequence = event.common.sequence;
    this.activity.recorded(event);
    this.#tell({ type: "security-event", payload: recordedOf(event, decision, evaluation?.began) });
    this.#found(findings);
    if (event.credential) this.report(credentialFindings(event));
    this.#detect(event, () => this.#detector.matchRequest(event, decision?.decision === "block"));
    this.#detect(event, () => this.#rules.observed(event, this.#history, "request"));
    return new Set(findings.map(({ finding_id }) => finding_id));
  }

  /** The event with the answers that its rules got about its host. */
  #answered(event: Event): Event {
    const labels = this.#history.labels(event);
    if (Object.keys(labels).length === 0) return event;
    return { ...event, common: { ...event.common, labels: { ...event.common.labels, ...labels } } };
  }

  /** Findings of an evaluation; the message of a rule that failed may repeat values of the event. */
  #findingsOf(evaluation: Evaluation): Finding[] {
    const findings = this.#rules.findingsOf(evaluation);
    return evaluation.failures.length > 0 ? this.#redactor.value(findings) : findings;
  }

  /**
   * Reports the findings of detections, or that the detections failed: the event is
   * decided and on record by then.
   */
  #detect({ common: { event_id } }: Event, match: () => Finding[]): void {
    let findings: Finding[];
    try {
      findings = match();
    } catch (error) {
      const message = `the detections cannot be evaluated on this event: ${(error as Error).message}`;
      findings = [failureFinding({ rule_id: GUARD_EVALUATION, event_id, message })];
    }
    this.report(findings);
  }

  #reviewResponse(event: Event, response: unknown, reported: ReadonlySet<string>): Decision | undefined {
    const held = this.#heldDecision(event);
    if (held) return held;
    const decoy = event.mcp && this.#options.decoyIn?.(withResponse(event, response));
    if (decoy) return this.refuse(decoyDraft(event, decoy), DECOY_REFUSAL);
    if (!this.#rules.reviewed.has(familyOf(event.common.event_type))) return undefined;
    const whole = withResponse(event, response);
    const evaluation = this.#rules.policy.evaluate(whole, this.#past);
    this.report(this.#findingsOf(evaluation).filter(({ finding_id }) => !reported.has(finding_id)));
    const { decision } = evaluation;
    if (decision.decision !== "block") return undefined;
    return this.#redactor.decision(decision, whole, this.#redactor.event(whole));
  }

  #requireOpen(event: Event): void {
    const held = this.#heldDecision(event);
    if (!held) return;
    throw new SbxError("policy.blocked", `${held.rule.reason}, so the rest of the request is not sent`);
  }

  #countSent(event: Event, bytes: number): void {
    this.#requireOpen(event);
    const limit = this.#budget?.countSent(event, bytes);
    if (limit) {
      throw new SbxError("policy.blocked", `${limit.reason}, so the rest of the request is not sent`);
    }
    this.#history.stream(event, bytes);
  }

  #recordEnd(event: Event, { use, ...outcome }: TimedOutcome): void {
    const seen = use ?? { complete: outcome.error === undefined };
    this.#safely(() => this.#budget?.settle(event, outcome.response, seen));
    this.#safely(() => this.#options.ended?.(event, outcome.response));
    let scrubbed = outcome;
    try {
      scrubbed = this.#redactor.outcome(event, outcome);
      this.#recorder.end({ event_id: event.common.event_id, ...scrubbed });
    } catch (error) {
      log.error((error as Error).message);
      if (error instanceof SbxError) return;
      // The end stays on record, without the part that cannot be.
      const { response: _, ...rest } = outcome;
      return this.#end(event, { ...rest, error: "the response cannot be recorded" });
    }
    const { response } = scrubbed;
    if (response === undefined) return;
    const whole = () => withResponse(this.#redactor.event(event), response);
    if (this.#detector.readsResponses) this.#detect(event, () => this.#detector.matchResponse(whole()));
    const { observers } = this.#rules.policy;
    if (!observers.readsResponses) return;
    this.#detect(event, () => this.#rules.observed(whole(), this.#history, "response"));
  }

  #end({ common: { event_id } }: Event, outcome: Outcome): void {
    this.#safely(() => this.#recorder.end({ event_id, ...outcome }));
  }

  /** A watcher that fails changes no decision. */
  #tell(notice: SessionNotice): void {
    this.#safely(() => this.#options.tell(notice));
  }

  /**
   * The event has happened and cannot be undone; a failing recorder reports itself, and
   * blocks the events that follow.
   */
  #safely(write: () => void): void {
    try {
      write();
    } catch (error) {
      log.error((error as Error).message);
    }
  }
}

/** Guard for an event that the ledger does not take. */
const GUARD_LEDGER = "guard-ledger";

/**
 * Records the refusal of an event that the ledger does not take: a full ledger has a reserve for refusals.
 *
 * @param redact makes the event as it may be recorded
 * @returns the error, to be thrown
 */
function recordRefusal(recorder: Recorder, redact: () => Event, error: SbxError): SbxError {
  try {
    const event = redact();
    const decision = guardDecision(event.common.event_id, { id: GUARD_LEDGER, reason: error.message });
    recorder.append({ event, decision });
  } catch {
    // Refused all the same, without a record.
  }
  return error;
}

/** How an event waits for a person. */
interface Asking {
  /** takes the question back */
  signal?: AbortSignal;
  waits?(ask: Ask): void;
  /** `ms` after which the event is refused while the person is still asked */
  heldMs?: number;
}

/** Who is asked about an event, and how long. */
interface AskPersonOptions extends Asking {
  /** `s`; absent: the default */
  timeout?: number;
  /** the event with refs in place of secrets */
  shown: Event;
  /** decides on the event by the rules of then */
  again(): Decision | undefined;
  /** takes that decision, where it is the one that holds */
  decided(by: Decision): void;
}

/** Asks a person about an event, until its client goes away. */
async function askPerson(
  asks: AskQueue,
  event: Event,
  decision: Decision,
  { timeout, shown, again, decided, signal, waits, heldMs }: AskPersonOptions,
): Promise<Decision> {
  const { event_id } = event.common;
  const answer = asks.ask(event, decision, timeout, shown, waits, { again, decided });
  const withdraw = () => asks.withdraw(event_id);
  if (signal?.aborted) withdraw();
  signal?.addEventListener("abort", withdraw);
  const isDefault = timeout === undefined;
  const held = heldMs === undefined ? undefined : setTimeout(() => asks.leave(event_id, isDefault), heldMs);
  try {
    return await answer;
  } finally {
    clearTimeout(held);
    signal?.removeEventListener("abort", withdraw);
  }
}

/** Tests whether two forms of an event have the same effect. */
function isSameEvent(one: Event, other: Event): boolean {
  const effectOf = ({ common: _, ...families }: Event) => canonicalJson(families);
  return one === other || effectOf(one) === effectOf(other);
}

/** Adds to a draft who, when and where; its place in the ledger follows when it is appended. */
function completeDraft(
  { common, bill: _, ...family }: Draft,
  { id, profile_id, user_id, labels: ofSession }: GateOptions["session"],
  profile_revision: string,
): Event {
  const { event_type, source_engine, enforceability, actor, labels, process, trace_id } = common;
  // In the order of canonical JSON, which then has nothing to sort.
  return {
    common: {
      actor: actor ?? "vm",
      enforceability: enforceability ?? "inline_blockable",
      event_id: newEventId(),
      event_type,
      labels: { ...labels, ...ofSession },
      ...(process && { process }),
      profile_id,
      profile_revision,
      sequence: 0,
      session_id: id,
      source_engine,
      timestamp_unix_ms: Date.now(),
      ...(trace_id !== undefined && { trace_id }),
      ...(user_id !== undefined && { user_id }),
      vm_id: id,
    },
    ...family,
    schema_version: 1,
  };
}
