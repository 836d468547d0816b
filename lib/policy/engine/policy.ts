import { allOf } from "../../base/list/mod.ts";
import type { Event, EventType, Finding } from "../../event/mod.ts";
import { type Decision, type Evaluation, failedEvaluation } from "../decision/mod.ts";
import type { CompiledRule } from "./compile.ts";
import { buildIndex, type TypeIndex } from "./lookup.ts";
import { methodReadings } from "./method.ts";
import {
  decidesByFile,
  filesOf,
  type FileTest,
  type HeldOperation,
  needsArguments,
  restrictsGuest,
} from "./guest.ts";
import { readsPart } from "./part.ts";
import { PassthroughGuard } from "./passthrough.ts";
import { PrivateAddressGuard } from "./private.ts";
import { compareRules, type Rule } from "./rule.ts";
import { Run } from "./run.ts";
import { lenientReadings } from "../../base/url/mod.ts";
import { withValue } from "./rewrite.ts";

/** Decisions in order of restriction. */
const RESTRICTION = allOf<Decision["decision"]>()("allow", "ask", "block");

/** A program of a guest, and what one does with a file, that no rule means. */
const ANY_PROGRAM = {
  common: { event_type: "process.exec", source_engine: "process", actor: "vm", labels: {} },
  process: { activity: { operation: "exec", executable: "", command: "", argv: [], cwd: "" } },
} as unknown as Event;
const anyFile = (operation: HeldOperation) => ({
  common: { event_type: "file.activity", source_engine: "file", actor: "vm", labels: {} },
  file: { activity: { operation, path: "", path_class: "", name: "", ext: "", byte_count: 0 } },
} as unknown as Event);

/** Options of one evaluation. */
export interface EvaluateOptions {
  /** search near misses among all rules, not only those run; for people, not for the hot path */
  explain?: boolean;
}

/** Compiled set of rules: immutable, shared by every event of a VM. */
export class Policy {
  /** enabled rules in evaluation order */
  readonly rules: readonly CompiledRule[];
  /** keeps corp's rules on content active */
  readonly passthrough: PassthroughGuard;
  readonly #privateAddresses: PrivateAddressGuard;
  readonly #index: Map<EventType, TypeIndex>;
  readonly #reads = new Map<string, boolean>();
  readonly #decidesByFile = new Map<EventType, boolean>();

  /** @param rules compiled rules; use {@linkcode compilePolicy} @param corp the rules that corp wrote */
  constructor(rules: readonly CompiledRule[], corp: ReadonlySet<Rule>) {
    this.rules = rules.filter(({ rule }) => rule.enabled).sort((a, b) => compareRules(a.rule, b.rule));
    this.rules.forEach((rule, at) => rule.order = at);
    this.#index = buildIndex(this.rules);
    this.passthrough = new PassthroughGuard(this.rules, corp);
    this.#privateAddresses = new PrivateAddressGuard(this.rules);
  }

  /** True when a rule reads a part of events: a family or a path, as in {@linkcode readsPart}. */
  reads(part: string): boolean {
    let reads = this.#reads.get(part);
    if (reads === undefined) this.#reads.set(part, reads = this.rules.some((rule) => readsPart(rule, part)));
    return reads;
  }

  /** True when a rule may restrict programs of the guest, as in {@linkcode restrictsGuest}, or none allows the others. */
  get restrictsPrograms(): boolean {
    return this.rules.some((rule) => restrictsGuest(rule, "process.exec")) ||
      this.evaluate(ANY_PROGRAM).decision.decision !== "allow";
  }

  /**
   * Files that guest programs may not open without a decision, by operation: all, none, or the ones that pass
   * one of these tests. A file is restricted where a rule may restrict it, or none allows the others.
   */
  get restrictsFiles(): Record<HeldOperation, boolean | FileTest[]> {
    const files = (operation: HeldOperation) =>
      this.evaluate(anyFile(operation)).decision.decision !== "allow" || filesOf(this.rules, operation);
    return { read: files("read"), write: files("write") };
  }

  /** True when a file of the guest and its path decide on events of a type, and nothing else. */
  decidesByFile(type: "process.exec" | "file.activity"): boolean {
    let decides = this.#decidesByFile.get(type);
    if (decides === undefined) {
      this.#decidesByFile.set(type, decides = this.rules.every((rule) => decidesByFile(rule, type)));
    }
    return decides;
  }

  /** First rule that needs the arguments of a program of the guest whose event has not all of them. */
  needsArguments(event: Event): Rule | undefined {
    const names = [event.process?.activity?.executable ?? "", ...executablesOf(event)];
    return this.rules.find((rule) => needsArguments(rule, names))?.rule;
  }

  /**
   * Decides on one event (docs/design/contracts/05-policy.md §5). Never throws: a rule that fails or exceeds
   * its budget blocks the event, any other error is a block by `guard-evaluation`; both are reported in
   * `failures`.
   */
  evaluate(event: Event, options: EvaluateOptions = {}): Evaluation {
    try {
      return this.#evaluate(event, options);
    } catch (error) {
      return failedEvaluation(event, error);
    }
  }

  #evaluate(event: Event, { explain = false }: EvaluateOptions): Evaluation {
    let evaluation = this.#run(event, true, explain);
    const sent = evaluation.event;
    // The rewritten event must pass the rules too.
    if (sent !== event) evaluation = withRestriction(evaluation, this.#run(sent, false, false));
    for (const reading of methodReadings(sent)) {
      const found = this.#run(reading, false, false);
      evaluation = withRestriction(withFindings(evaluation, found), found);
    }
    return evaluation;
  }

  /** Evaluates one event as it is, and as lenient servers read it. */
  #run(event: Event, appliesRewrites: boolean, explain: boolean): Evaluation {
    const index = this.#index.get(event.common.event_type)!;
    const guards = [this.passthrough, this.#privateAddresses] as const;
    const run = new Run(index, event, appliesRewrites ? "all" : "without-rewrites", ...guards);
    let evaluation = run.evaluation(explain ? this.rules : undefined);
    for (const reading of otherReadings(event)) {
      const restricting = new Run(index, reading, "restrictions", ...guards);
      const found = restricting.evaluation();
      evaluation = withFindings(evaluation, found);
      if (restricting.order < run.order) evaluation = withRestriction(evaluation, found);
    }
    return evaluation;
  }
}

/** Rules of two layers may have one id. */
function ruleOf({ pack_id, rule_id }: Finding): string {
  return `${pack_id} ${rule_id}`;
}

/** Adds the findings of another reading. */
function withFindings(first: Evaluation, { findings }: Evaluation): Evaluation {
  const known = new Set(first.findings.map(ruleOf));
  const added = findings.filter((finding) => !known.has(ruleOf(finding)));
  return added.length > 0 ? { ...first, findings: [...first.findings, ...added] } : first;
}

/** The stricter of two decisions on an event; the rest is that of the first. */
function withRestriction(first: Evaluation, second: Evaluation): Evaluation {
  const { decision } = first;
  const isStricter = RESTRICTION.indexOf(second.decision.decision) > RESTRICTION.indexOf(decision.decision);
  const stricter = isStricter ? second.decision : decision;
  const protocols = new Set(
    [decision.protocol, second.decision.protocol].filter((name) => name !== undefined),
  );
  const [protocol] = protocols;
  return {
    ...first,
    decision: {
      ...stricter,
      // A connection cannot speak two.
      ...(protocols.size > 1 && { decision: "block", remedy: `let its rules name one protocol` }),
      ...(protocol !== undefined && { protocol }),
      rewrites: decision.rewrites,
    },
    decider: isStricter ? second.decider : first.decider,
    failures: [...first.failures, ...second.failures],
  };
}

const PATH = "http.request.path";

const EXECUTABLE = "process.activity.executable";

/**
 * An event as others read it; mostly none. Rules that restrict hold for these readings too: the upstream may read the path
 * `/x%2Fadmin` as `/x/admin`, a program goes by its path and by its name, and the kernel runs the file that a link leads to.
 */
function otherReadings(event: Event): Event[] {
  if (event.process) return executablesOf(event).map((reading) => withValue(event, EXECUTABLE, reading));
  const path = event.http?.request?.path;
  if (path === undefined) return [];
  return lenientReadings(path).map((reading) => withValue(event, PATH, reading));
}

/** Other paths and names of the program that is started. */
function executablesOf({ process, common }: Event): string[] {
  const given = process?.activity?.executable;
  if (given === undefined) return [];
  const paths = [given, common.labels?.opened ?? given];
  const all = new Set([...paths, ...paths.map((path) => path.slice(path.lastIndexOf("/") + 1))]);
  all.delete(given);
  return [...all];
}
