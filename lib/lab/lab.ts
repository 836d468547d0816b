/**
 * A laboratory: runs candidate detections and rules over recorded sessions, and compares them with a
 * baseline. {@linkcode DetectionTrial} counts gained and lost matches, {@linkcode PolicyTrial} changed
 * decisions.
 */
import { type Compiled, type LoadedRule, Matcher } from "../detection/mod.ts";
import {
  type EventRef,
  Evidence,
  EVIDENCE_ROWS,
  type EvidenceReport,
  matchesOf,
  refOf,
  type RuleMatch,
  SESSION_CORPUS,
} from "../detection/replay/mod.ts";
import { isBudget } from "../policy/budget/mod.ts";
import {
  compileLayers,
  type Decision,
  isGuard,
  isNarrowing,
  type Policy,
  Replay,
  type RuleLayers,
  subjectOf,
  summary,
  Watch,
} from "../policy/mod.ts";
import type { Event, Finding } from "../event/mod.ts";

/** Event as a ledger lists it, with its decision, if any, and the rule or guard that made it. */
export type LabEvent = Event & { decision?: string; rule_id?: string; outcome?: { streamed_bytes?: number } };

/** Recorded session, ended or still running. */
export interface LabSession {
  id: string;
  events: AsyncIterable<LabEvent> | Iterable<LabEvent>;
}

/** Reference that candidates are compared with. */
export interface LabBaseline {
  packs: readonly Compiled[];
  /** absent: the recorded decisions */
  rules?: RuleLayers;
}

export interface LabOptions {
  sessions: AsyncIterable<LabSession> | Iterable<LabSession>;
  /** candidate detections */
  packs: readonly Compiled[];
  /** candidate rules; the built-in defaults are added */
  rules?: RuleLayers;
  baseline: LabBaseline;
  /** maximum number of rows per list */
  limit?: number;
  signal?: AbortSignal;
  /** called for each session before it is read */
  onSession?(id: string): void;
}

/** A detection rule with its matches in baseline and candidate. */
export interface LabRule {
  rule_id: string;
  pack_id: string;
  title: string;
  /** number of events it matches in the baseline and in the candidate */
  baseline: number;
  candidate: number;
  /** number of events that only the candidate, or only the baseline, matches */
  gained: number;
  lost: number;
}

/** Number of events whose decision changed. */
export interface DecisionChange {
  from: string;
  to: string;
  count: number;
}

/** Effect of the candidate rules. */
export interface LabPolicy {
  /** number of events that policy could have blocked */
  decided: number;
  /** number of events that a guard or a budget decided on, which no rule can change */
  guarded: number;
  /** number of events that the candidate asks about by the same rule as then; they keep their answer */
  asked: number;
  changes: DecisionChange[];
  /** events that were allowed, and would now be blocked or asked about */
  blocked: EvidenceReport;
  /** events that were not allowed, and would now be */
  released: EvidenceReport;
  /** first failures of rules on events */
  failures: { rule_id: string; event_id: string; message: string }[];
}

export interface LabReport {
  schema: "sbx.lab.v1";
  /** true if no match is lost and no allowed call would be blocked */
  ok: boolean;
  session_count: number;
  event_count: number;
  /** detections that gained or lost matches, most changes first */
  rules: LabRule[];
  gained: EvidenceReport;
  lost: EvidenceReport;
  /** absent without candidate rules */
  policy?: LabPolicy;
}

/**
 * Runs candidate detections and rules over recorded sessions and reports the differences from the baseline,
 * with the same matcher and policy engine as live VMs.
 *
 * @throws {SbxError} `detection.conflict`: two rules have the same id; `policy.invalid`;
 * the signal's reason, when aborted
 */
export async function runLab(options: LabOptions): Promise<LabReport> {
  const { sessions, packs, rules, baseline, limit = EVIDENCE_ROWS, signal, onSession } = options;
  const detections = new DetectionTrial(new Matcher(baseline.packs), new Matcher(packs), limit);
  const policies = {
    candidate: rules && compileLayers(rules),
    baseline: baseline.rules && compileLayers(baseline.rules),
  };
  const decisions = policies.candidate &&
    new PolicyTrial(policies.candidate, policies.baseline, limit, {
      keepsProject: !rules?.project && !baseline.rules,
    });
  const watches = { before: watchOf(policies.baseline), after: watchOf(policies.candidate) };
  let [session_count, event_count] = [0, 0];
  for await (const { id, events } of sessions) {
    signal?.throwIfAborted();
    onSession?.(id);
    session_count++;
    for await (const event of events) {
      signal?.throwIfAborted();
      event_count++;
      const ref = { ...refOf(event, SESSION_CORPUS), session_id: id };
      detections.run(event, ref, {
        before: watches.before?.observe(event, event.decision).findings ?? [],
        after: watches.after?.observe(event, event.decision).findings ?? [],
      });
      decisions?.run(event, ref);
    }
  }
  const detectionReport = detections.report();
  const policy = decisions?.report();
  return {
    schema: "sbx.lab.v1",
    ok: detectionReport.lost.total_matches === 0 && !policy?.blocked.total_matches,
    session_count,
    event_count,
    ...detectionReport,
    ...(policy && { policy }),
  };
}

/** Collects findings of rules that only observe; undefined if a policy has none. */
function watchOf(policy: Policy | undefined): Watch | undefined {
  return policy && policy.observers.rules.length > 0 ? new Watch(policy) : undefined;
}

/** A match of an event: by a detection of a pack, or by a policy rule that only observes. */
interface Hit extends RuleMatch {
  title: string;
}

/** Compares two sets of detections over the same events. */
class DetectionTrial {
  readonly #gained: Evidence;
  readonly #lost: Evidence;
  readonly #rules = new Map<string, LabRule>();

  constructor(readonly before: Matcher, readonly after: Matcher, limit: number) {
    this.#gained = new Evidence(limit);
    this.#lost = new Evidence(limit);
  }

  /** @param observed findings of policy rules that only observe, in baseline and candidate */
  run(event: LabEvent, ref: EventRef, observed: { before: Finding[]; after: Finding[] }): void {
    const before = hitsOf(event, this.before.hits(event), observed.before);
    const after = hitsOf(event, this.after.hits(event), observed.after);
    if (!before.length && !after.length) return;
    const [gained, lost] = [subtract(after, before), subtract(before, after)];
    for (const hit of before) this.#ruleOf(hit).baseline++;
    for (const hit of after) this.#ruleOf(hit).candidate++;
    for (const hit of gained) this.#ruleOf(hit).gained++;
    for (const hit of lost) this.#ruleOf(hit).lost++;
    this.#gained.add(event, ref, gained);
    this.#lost.add(event, ref, lost);
  }

  report(): Pick<LabReport, "rules" | "gained" | "lost"> {
    const rules = [...this.#rules.values()].filter(({ gained, lost }) => gained || lost)
      .sort((a, b) => b.lost + b.gained - a.lost - a.gained || (a.rule_id < b.rule_id ? -1 : 1));
    return { rules, gained: this.#gained.report(), lost: this.#lost.report() };
  }

  #ruleOf(hit: Hit): LabRule {
    const key = keyOf(hit);
    let rule = this.#rules.get(key);
    if (!rule) {
      const { rule_id, title, pack_id } = hit;
      rule = { rule_id, pack_id, title, baseline: 0, candidate: 0, gained: 0, lost: 0 };
      this.#rules.set(key, rule);
    }
    return rule;
  }
}

/** Key of a rule; versions of a pack share it. */
function keyOf({ rule_id, pack_id }: Hit): string {
  return `${pack_id} ${rule_id}`;
}

function hitsOf(event: LabEvent, hits: readonly LoadedRule[], observed: readonly Finding[]): Hit[] {
  return [
    ...matchesOf(event, hits).map((match, at) => ({ ...match, title: hits[at].rule.title })),
    ...observed.map(({ rule_id, pack_id, title }) => ({
      rule_id,
      pack_id,
      title,
      matched_fields: [subjectOf(event)],
      outcome: { outcome: "matched" as const, message: title },
    })),
  ];
}

function subtract(hits: readonly Hit[], others: readonly Hit[]): Hit[] {
  return hits.filter((hit) => !others.some((other) => keyOf(other) === keyOf(hit)));
}

/** Maximum number of failures listed. */
const FAILURES_MAX = 20;

/** Compares candidate rules with recorded decisions or with baseline rules. */
class PolicyTrial {
  readonly #candidate: Replay;
  /** absent: compared with the decisions on record */
  readonly #baseline?: Replay;
  readonly #keepsProject: boolean;
  readonly #blocked: Evidence;
  readonly #released: Evidence;
  readonly #changes = new Map<string, DecisionChange>();
  readonly #failures: LabPolicy["failures"] = [];
  #decided = 0;
  #guarded = 0;
  #asked = 0;

  /**
   * @param options.keepsProject recorded decisions of a project file stand, since the candidate lacks its
   * rules
   */
  constructor(
    candidate: Policy,
    baseline: Policy | undefined,
    limit: number,
    { keepsProject }: { keepsProject: boolean },
  ) {
    this.#candidate = new Replay(candidate);
    this.#baseline = baseline && new Replay(baseline);
    this.#keepsProject = keepsProject;
    this.#blocked = new Evidence(limit);
    this.#released = new Evidence(limit);
  }

  run(event: LabEvent, ref: EventRef): void {
    const { rule_id } = event;
    // Guards refuse before any rule is evaluated, budgets after all of them: both would do so again.
    if (rule_id !== undefined && (isGuard(rule_id) || isBudget(rule_id))) {
      this.#guarded++;
      if (event.decision === "allow") this.#observe(event);
      return;
    }
    if (event.common.enforceability !== "inline_blockable") return this.#observe(event);
    const from = this.#baseline ? this.#baseline.evaluate(event).decision.decision : event.decision;
    if (from === undefined) return this.#candidate.observe(event);
    this.#decided++;
    const { decision, failures, event: sent } = this.#candidate.decide(event);
    this.#failures.push(...failures.slice(0, FAILURES_MAX - this.#failures.length));
    const to = this.#finalDecision(event, decision);
    if (to === "allow") this.#candidate.observe(sent);
    if (from === to) return;
    const change = this.#changes.get(`${from} ${to}`) ?? { from, to, count: 0 };
    this.#changes.set(`${from} ${to}`, { ...change, count: change.count + 1 });
    if (from === "allow") this.#blocked.add(event, ref, [ruleMatchOf(decision)]);
    else if (to === "allow") this.#released.add(event, ref, [ruleMatchOf(decision)]);
  }

  /** Adds an event to the history, which went ahead whatever the rules say. */
  #observe(event: LabEvent): void {
    this.#baseline?.observe(event);
    this.#candidate.observe(event);
  }

  /**
   * The candidate's decision, in the form that a record has: an ask is recorded as its answer. If the same
   * rule decided then, its recorded answer counts.
   */
  #finalDecision({ decision, rule_id }: LabEvent, { decision: to, rule }: Decision): string {
    if (this.#baseline || decision === undefined || rule_id === undefined) return to;
    if (to === "ask" && rule.id === rule_id) {
      this.#asked++;
      return decision;
    }
    // Rules of the project file are not at hand; they can only narrow, and would again.
    return to === "allow" && this.#keepsProject && isNarrowing(rule_id) ? decision : to;
  }

  report(): LabPolicy {
    return {
      decided: this.#decided,
      guarded: this.#guarded,
      asked: this.#asked,
      changes: [...this.#changes.values()].sort((a, b) => b.count - a.count),
      blocked: this.#blocked.report(),
      released: this.#released.report(),
      failures: this.#failures,
    };
  }
}

function ruleMatchOf(decision: Decision): RuleMatch {
  const { rule, matched_fields } = decision;
  return {
    rule_id: rule.id,
    pack_id: `policy.${rule.layer}`,
    matched_fields,
    outcome: { outcome: "matched", message: summary(decision) },
  };
}
