/** One pass over the rules, the core of `Policy.evaluate`, and the explanation of its decision. */
import { type Event, familyOf, type Finding, valueAt } from "../../event/mod.ts";
import type {
  AppliedRewrite,
  Decision,
  Evaluation,
  MatchedField,
  NearMiss,
  RuleFailure,
} from "../decision/mod.ts";
import { resetCost } from "./cel.ts";
import { celMessage, type CompiledRule, type Program, type Rewrite } from "./compile.ts";
import { FlatEvent, quote } from "./field.ts";
import type { TypeIndex } from "./lookup.ts";
import {
  isPassedThrough,
  isWithin,
  overlooksCommand,
  type PassthroughGuard,
  type PrivateAddressGuard,
} from "./guard.ts";
import { type Rule, ruleLabel } from "./rule.ts";
import { OBSERVE_LEVEL, PRIORITY_DEFAULT, type Protocol } from "./rule_term.ts";
import { isPrivateHost } from "../../base/address/mod.ts";

/**
 * Rules that count in a pass: `restrictions` are blocks and asks, for a reading of the event
 * that is not the one that is sent.
 */
type Pass = "all" | "without-rewrites" | "restrictions";

/** One pass over the candidate rules of an event; complete once it is made. */
export class Run {
  readonly #flat: FlatEvent;
  /** rules run without a match before the deciding rule */
  readonly #unmatched: CompiledRule[] = [];
  readonly #rewrites: AppliedRewrite[] = [];
  /** rewrites of corp so far */
  readonly #corp: Rewrite[] = [];
  readonly #findings: Finding[] = [];
  readonly #failures: RuleFailure[] = [];
  #evaluated = 0;
  #decider?: CompiledRule;
  /**
   * First ask that holds only where a later rule allows the event: of a project file, or one that does not
   * name a private address of the event
   */
  #openAsk?: CompiledRule;
  /** protocol of the first open ask that has one */
  #askProtocol?: Protocol;
  /** place of the rule that decided before {@linkcode #openAsk} */
  #order: number;
  /** reason of a decision by a rule that failed */
  #failure?: string;
  /** message of the last failure, without the rule's place, which is not for guests */
  #error = "";
  #rewritten: Event;
  /** protocol that the connection is held to */
  readonly #protocol?: Protocol;

  constructor(
    index: TypeIndex,
    readonly event: Event,
    readonly pass: Pass,
    readonly passthrough: PassthroughGuard,
    readonly privateAddresses: PrivateAddressGuard,
    /** of `restrictions`: place of the rule that decided on the event as it is */
    readonly before = Infinity,
  ) {
    this.#flat = new FlatEvent(event);
    this.#rewritten = event;
    this.#evaluate(index.find(event), index.always);
    this.#protocol = this.#decider?.rule.protocol;
    this.#order = this.#decider?.order ?? Infinity;
    if (this.pass === "restrictions") this.#decider ??= this.#openAsk;
    else if (this.#decider?.rule.action === "allow" && this.#openAsk) {
      // The allow opens the address, and holds the connection to its protocol.
      this.#protocol ??= this.#askProtocol;
      this.#decider = this.#openAsk;
    }
  }

  /** Place of the deciding rule in the order of evaluation. */
  get order(): number {
    return this.#order;
  }

  /** A rule decided. */
  get isDecided(): boolean {
    return this.#decider !== undefined;
  }

  /** Evaluates two ordered lists as one merged list. */
  #evaluate(hits: CompiledRule[], always: CompiledRule[]): void {
    let hit = 0;
    let other = 0;
    while (hit < hits.length || other < always.length) {
      const next = other >= always.length || (hit < hits.length && hits[hit].order < always[other].order)
        ? hits[hit++]
        : always[other++];
      if (!this.#decider && this.#counts(next)) this.#decide(next);
      // Findings do not depend on the decision.
      else if (next.rule.detection_level && this.#matches(next)) this.#addFinding(next);
    }
  }

  #counts({ rule: { action }, order }: CompiledRule): boolean {
    return this.pass !== "restrictions" || order < this.before && (action === "block" || action === "ask");
  }

  #decide(next: CompiledRule): void {
    const failures = this.#failures.length;
    if (!this.#matches(next)) {
      if (this.#failures.length > failures) {
        this.#decider = next;
        this.#failure = `the rule failed on this event: ${this.#error}`;
      } else this.#unmatched.push(next);
      return;
    }
    if (next.rule.detection_level) this.#addFinding(next);
    const { action } = next.rule;
    if (action === "rewrite") this.#rewrite(next);
    // It may not take the place of a later block.
    else if (action === "ask" && next.rule.narrows) this.#leaveOpen(next);
    else if (overlooksCommand(next, this.event)) this.#unmatched.push(next);
    else if (action === "block" || !this.privateAddresses.overlooks(next, this.event)) this.#decider = next;
    else if (action === "ask" && this.pass !== "restrictions") this.#leaveOpen(next);
  }

  /**
   * Keeps the first open ask, and the first protocol: a project's ask has none,
   * and must not lift a later one's.
   */
  #leaveOpen(ask: CompiledRule): void {
    this.#openAsk ??= ask;
    this.#askProtocol ??= ask.rule.protocol;
  }

  #matches({ program, rule }: CompiledRule): boolean {
    this.#evaluated++;
    try {
      const value = runProgram(program, this.#flat);
      if (typeof value === "boolean") return value;
      throw new Error("the result is not a bool on this event");
    } catch (error) {
      this.#error = celMessage(error);
      this.#failures.push({
        rule_id: rule.id,
        event_id: this.event.common.event_id,
        message: `${ruleLabel(rule)} failed: ${this.#error}`,
      });
      return false;
    }
  }

  #rewrite({ rule, rewrites }: CompiledRule): void {
    if (this.pass !== "all") return;
    const isCorp = this.passthrough.isCorp(rule);
    for (const { op, path, apply } of rewrites) {
      const changed = apply(this.#rewritten);
      if (changed === this.#rewritten) continue;
      const passes = isPassedThrough(changed) && !isPassedThrough(this.#rewritten);
      if (passes && this.passthrough.blinded(rule, this.event)) continue;
      this.#rewritten = changed;
      this.#rewrites.push({ rule_id: rule.id, op, path });
      if (!isCorp) this.#rewriteForCorp(path);
    }
    if (isCorp) this.#corp.push(...rewrites);
  }

  /** Applies corp's rewrites of a field again that another rule has changed since. */
  #rewriteForCorp(changed: string): void {
    for (const { path, apply } of this.#corp) {
      if (isWithin(path, changed) || isWithin(changed, path)) this.#rewritten = apply(this.#rewritten);
    }
  }

  #addFinding({ rule }: CompiledRule): void {
    this.#findings.push(findingOf(rule, this.event));
  }

  evaluation(all?: readonly CompiledRule[]): Evaluation {
    const decision = this.#decision();
    const denied = decision.decision !== "allow";
    if (denied || all) decision.near_misses = nearMisses(this.#flat, this.#candidates(all), denied);
    if (denied) {
      decision.remedy = remedyFor(this.event, decision, this.#decider?.rule, this.#failure !== undefined);
    }
    return {
      decision,
      decider: this.#decider?.rule,
      findings: this.#findings,
      event: this.#rewritten,
      failures: this.#failures,
    };
  }

  /** Rules before the deciding one: a match of any of them would have decided. */
  #candidates(all?: readonly CompiledRule[]): readonly CompiledRule[] {
    return all?.slice(0, this.#decider?.order) ?? this.#unmatched;
  }

  #decision(): Decision {
    const decider = this.#decider;
    const { event_id } = this.event.common;
    const rewrites = this.#rewrites;
    const evaluated = this.#evaluated;
    if (!decider) {
      const rule = { id: "none", layer: "none" as const, name: "no rule matched" };
      return { decision: "block", evaluated, event_id, matched_fields: [], near_misses: [], rewrites, rule };
    }
    const { id, name, layer, file, line, reason, action } = decider.rule;
    const explanation = this.#failure ?? reason;
    // Keys in canonical JSON order, so that nothing needs sorting.
    return {
      decision: this.#failure === undefined ? action as Decision["decision"] : "block",
      evaluated,
      event_id,
      matched_fields: matchedFields(this.event, decider.paths),
      near_misses: [],
      ...(this.#protocol !== undefined && { protocol: this.#protocol }),
      rewrites,
      rule: {
        ...(file !== undefined && { file }),
        id,
        layer,
        ...(line !== undefined && { line }),
        name,
        ...(explanation !== undefined && { reason: explanation }),
      },
    };
  }
}

/** Runs a rule's expression with a budget of its own. */
export function runProgram(program: Program, flat: FlatEvent): unknown {
  resetCost();
  return program(flat);
}

/** The finding of a rule that matched. */
export function findingOf(
  { id, layer, name, detection_level: level = OBSERVE_LEVEL }: Rule,
  { common: { event_id } }: Event,
): Finding {
  return {
    finding_id: `finding-${event_id}-${id}`,
    event_id,
    rule_id: id,
    pack_id: `policy.${layer}`,
    title: name,
    severity: level === "informational" ? "info" : level,
    confidence: "high",
    tags: [],
  };
}

// Explanation of a decision for people: relevant values, near misses, remedy.

/** Maximum length of a value in a record, in characters. */
const VALUE_MAX = 256;
/** Maximum near misses in a record. */
const NEAR_MISSES_MAX = 3;
/** Maximum rules examined for near misses. */
const RULES_EXAMINED_MAX = 64;

/** Field that identifies an event for people, by family. */
const SUBJECT: Record<string, string> = {
  http: "http.request.host",
  dns: "dns.request.qname",
  db: "db.request.kind",
  sign: "sign.request.signer",
  mcp: "mcp.request.namespaced_tool_name",
  model: "model.request.provider",
  file: "file.activity.path",
  process: "process.activity.executable",
  credential: "credential.substitution.provider",
};

/** Subject of an event: a field and its value. */
export function subjectOf(event: Event): MatchedField {
  const path = SUBJECT[familyOf(event.common.event_type)];
  return { path, value: valueAt(event, path) };
}

/** Values of the given fields, where present. */
function matchedFields(event: Event, paths: readonly string[]): MatchedField[] {
  const fields: MatchedField[] = [];
  for (const path of paths) {
    const value = valueAt(event, path);
    if (value !== undefined) fields.push({ path, value: shorten(value) });
  }
  return fields;
}

/**
 * The decision with its cut values taken from another form of its event: a value cut in the middle of a
 * secret cannot be scrubbed any more.
 */
export function withValuesOf(decision: Decision, event: Event): Decision {
  const renew = <T extends { path: string; value?: unknown }>(field: T): T =>
    isCut(field.value) ? { ...field, value: shorten(valueAt(event, field.path)) } : field;
  const { matched_fields, near_misses } = decision;
  return { ...decision, matched_fields: matched_fields.map(renew), near_misses: near_misses.map(renew) };
}

/** Finds the rules that failed in the fewest clauses, nearest first. */
export function nearMisses(flat: FlatEvent, rules: readonly CompiledRule[], denied: boolean): NearMiss[] {
  const misses: (NearMiss & { failed_clauses: number; of: number })[] = [];
  let examined = 0;
  for (const { rule, clauses } of relevantRules(rules, denied)) {
    if (examined++ >= RULES_EXAMINED_MAX) break;
    const failed = clauses.filter(({ program }) => !holds(program, flat));
    // At most all but one clause may fail, or the only one.
    if (!failed.length || failed.length > Math.max(1, clauses.length - 1)) continue;
    const { text, path } = failed[0];
    const value = path ? valueAt(flat.event, path) : undefined;
    misses.push({
      rule_id: rule.id,
      failed: shorten(text) as string,
      path,
      ...(value !== undefined && { value: shorten(value) }),
      failed_clauses: failed.length,
      of: clauses.length,
    });
  }
  misses.sort((a, b) => a.failed_clauses - b.failed_clauses || b.of - a.of);
  return misses.slice(0, NEAR_MISSES_MAX).map(({ failed_clauses: _, of: __, ...miss }) => miss);
}

/** Rules that would have reversed the decision: allows for a denial, blocks and asks otherwise. */
function* relevantRules(rules: readonly CompiledRule[], denied: boolean): Generator<CompiledRule> {
  for (const rule of rules) {
    const isAllow = rule.rule.action === "allow";
    if (
      rule.rule.layer !== "default" &&
      (denied ? isAllow : rule.rule.action === "block" || rule.rule.action === "ask")
    ) {
      yield rule;
    }
  }
}

function holds(program: CompiledRule["program"], flat: FlatEvent): boolean {
  resetCost();
  try {
    return program(flat) === true;
  } catch {
    return false;
  }
}

/** Smallest change that would allow the event. */
function remedyFor(
  event: Event,
  { decision, rule }: Decision,
  decider: Rule | undefined,
  failed: boolean,
): string {
  // People may answer corp's asks too; the record of the answer has its own remedy.
  if (decision === "ask") return "approve it: sbx asks lists pending asks";
  if (rule.layer === "corp") return "only your administrator can change corp rules";
  const place = rule.file ? `${rule.file}:${rule.line}` : `rule "${rule.id}"`;
  if (decider?.narrows) return `change ${place} of the folder, for a new VM`;
  if (failed) return `correct ${place}`;
  if (decider?.layer === "profile" && decider.priority <= PRIORITY_DEFAULT.profile) {
    return `change ${place}, or set enabled = false there`;
  }
  const match = rule.id === "block-private-dns"
    ? answerMatchOf(event)
    : rule.id === "block-ssh-command"
    ? commandMatchOf(event)
    : subjectMatchOf(event);
  const priority = decider?.layer === "profile" ? `, priority = ${decider.priority - 1}` : "";
  return `allow it in the profile: action = "allow"${priority}, match = '${match}'`;
}

/** Match of a rule for events like this one. */
function subjectMatchOf(event: Event): string {
  const { path, value } = subjectOf(event);
  return value === undefined
    ? `common.event_type == ${quote(event.common.event_type)}`
    : `${path} == ${quote(String(value))}`;
}

/**
 * Match of a rule that names the private addresses in a DNS answer: a rule on the
 * name alone does not open them.
 */
function answerMatchOf(event: Event): string {
  const found = event.dns?.response?.answers.filter(isPrivateHost).map(quote).join(", ");
  return `${subjectMatchOf(event)} && dns.response.answers.exists(answer, answer in [${found}])`;
}

/** Match of a rule that names a command over SSH: a rule on the host alone does not allow it. */
function commandMatchOf(event: Event): string {
  const { kind, command } = event.http?.request.ssh ?? { kind: "shell", command: "" };
  const tests = `${subjectMatchOf(event)} && http.request.ssh.kind == ${quote(kind)}`;
  return kind === "exec" || kind === "subsystem"
    ? `${tests} && http.request.ssh.command == ${quote(command)}`
    : tests;
}

/** True for a value that {@linkcode shorten} cut. */
function isCut(value: unknown): boolean {
  return typeof value === "string" && value.length > VALUE_MAX;
}

function shorten(value: unknown): unknown {
  if (typeof value === "string") return value.length > VALUE_MAX ? `${value.slice(0, VALUE_MAX)}…` : value;
  if (value === null || typeof value !== "object") return value;
  const text = JSON.stringify(value);
  return text.length > VALUE_MAX ? `${text.slice(0, VALUE_MAX)}…` : value;
}
