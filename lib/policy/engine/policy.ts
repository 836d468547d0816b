/** A compiled set of rules, which decides on events (docs/design/contracts/05-policy.md §5). */
import { allOf } from "../../base/list/mod.ts";
import {
  type Event,
  type EventType,
  type Finding,
  type HttpBody,
  isMethodOverride,
} from "../../event/mod.ts";
import { type Decision, type Evaluation, failedEvaluation } from "../decision/mod.ts";
import { type CompiledRule, compileRule, withValue } from "./compile.ts";
import { type Counter, type History, HISTORY_COUNTERS_MAX, withHistory } from "./history.ts";
import { buildIndex, type TypeIndex } from "./lookup.ts";
import {
  decidesByFile,
  filesOf,
  type FileTest,
  type HeldOperation,
  needsArguments,
  restrictsGuest,
} from "./guest.ts";
import { PassthroughGuard, PrivateAddressGuard, readsPart } from "./guard.ts";
import type { NarrowingRules } from "../author/schema.ts";
import { narrowing } from "./narrow.ts";
import { type Observation, type ObservePhase, Observers } from "./observe.ts";
import { compareRules, DEFAULT_RULES, type Rule, ruleLabel } from "./rule.ts";
import { Run } from "./run.ts";
import { lenientReadings } from "../../base/url/mod.ts";
import { SbxError } from "../../base/error/mod.ts";
import { LAYERS, RULES_MAX } from "./rule_term.ts";

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
  /** earlier events of the VM; absent: rules that ask for them fail, which blocks */
  history?: History;
  /**
   * search near misses among all rules, not only those run, and add what rules that only observe find;
   * for people, not for the hot path
   */
  explain?: boolean;
}

/** Compiled set of rules: immutable, shared by every event of a VM. */
export class Policy {
  /** enabled rules that decide, in evaluation order */
  readonly rules: readonly CompiledRule[];
  /** enabled rules that only observe; nothing that decides reads them */
  readonly observers: Observers;
  /** questions of the rules about earlier events */
  readonly counters: readonly Counter[];
  /** keeps corp's rules on content active */
  readonly passthrough: PassthroughGuard;
  readonly #privateAddresses: PrivateAddressGuard;
  readonly #index: Map<EventType, TypeIndex>;
  readonly #reads = new Map<string, boolean>();
  readonly #decidesByFile = new Map<EventType, boolean>();

  /** @param rules compiled rules; use {@linkcode compilePolicy} @param corp the rules that corp wrote */
  constructor(rules: readonly CompiledRule[], corp: ReadonlySet<Rule>) {
    const enabled = rules.filter(({ rule }) => rule.enabled).sort((a, b) => compareRules(a.rule, b.rule));
    this.rules = enabled.filter(({ rule }) => rule.action !== "observe");
    this.rules.forEach((rule, at) => rule.order = at);
    this.#index = buildIndex(this.rules);
    this.observers = new Observers(enabled.filter(({ rule }) => rule.action === "observe"));
    const counters = enabled.flatMap((rule) => rule.counters);
    this.counters = [...new Map(counters.map((each) => [each.key, each])).values()];
    this.passthrough = new PassthroughGuard(this.rules, corp);
    this.#privateAddresses = new PrivateAddressGuard(this.rules);
  }

  /** Enabled rules of every action, in order. */
  get all(): readonly CompiledRule[] {
    return [...this.rules, ...this.observers.rules].sort((a, b) => compareRules(a.rule, b.rule));
  }

  /** True when a rule reads a part of events: a family or a path, as in {@linkcode readsPart}. */
  reads(part: string): boolean {
    let reads = this.#reads.get(part);
    if (reads === undefined) this.#reads.set(part, reads = this.rules.some((rule) => readsPart(rule, part)));
    return reads;
  }

  /**
   * True when a rule may restrict programs of the guest, as in
   * {@linkcode restrictsGuest}, or none allows the others.
   */
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
      return this.counters.length > 0
        ? withHistory(options.history, event, () => this.#evaluate(event, options))
        : this.#evaluate(event, options);
    } catch (error) {
      return failedEvaluation(event, error);
    }
  }

  /**
   * Findings of the rules that only observe, in an event as it is recorded. Never throws,
   * and no decision depends on it.
   *
   * @param phase of a VM's event, whose response comes later; absent: the whole event of a record
   */
  observe(event: Event, { history, phase }: { history?: History; phase?: ObservePhase } = {}): Observation {
    const { observers } = this;
    if (observers.rules.length === 0) return { findings: [], failures: [] };
    const find = () => observers.find(event, [...otherReadings(event), ...namedMethods(event)], phase);
    return this.counters.length > 0 ? withHistory(history, event, find) : find();
  }

  #evaluate(event: Event, { explain = false, history }: EvaluateOptions): Evaluation {
    let evaluation = this.#run(event, true, explain);
    const sent = evaluation.event;
    // The rewritten event must pass the rules too.
    if (sent !== event) evaluation = withRestriction(evaluation, this.#run(sent, false, false));
    for (const reading of methodReadings(sent)) {
      const found = this.#run(reading, false, false);
      evaluation = withRestriction(withFindings(evaluation, found), found);
    }
    if (!explain) return evaluation;
    const { findings, failures } = this.observe(sent, { history });
    return {
      ...evaluation,
      findings: [...evaluation.findings, ...findings],
      failures: [...evaluation.failures, ...failures],
    };
  }

  /** Evaluates one event as it is, and as lenient servers read it. */
  #run(event: Event, appliesRewrites: boolean, explain: boolean): Evaluation {
    const index = this.#index.get(event.common.event_type)!;
    const guards = [this.passthrough, this.#privateAddresses] as const;
    const run = new Run(index, event, appliesRewrites ? "all" : "without-rewrites", ...guards);
    let evaluation = run.evaluation(explain ? this.rules : undefined);
    for (const reading of otherReadings(event)) {
      const restricting = new Run(index, reading, "restrictions", ...guards, run.order);
      const found = restricting.evaluation();
      evaluation = withFindings(evaluation, found);
      if (restricting.isDecided) evaluation = withRestriction(evaluation, found);
    }
    return evaluation;
  }
}

/** Maximum broken rules listed in one error. */
const PROBLEMS_SHOWN = 10;

/**
 * Compiles rules of every layer and the built-in defaults into one policy.
 *
 * @param corp the rules that corp wrote, in any layer
 * @throws {SbxError} `policy.invalid`: with file and line of up to ten broken rules
 */
export function compilePolicy(
  rules: readonly Rule[],
  corp: readonly Rule[] = rules.filter(({ layer }) => layer === "corp"),
): Policy {
  if (rules.length > RULES_MAX) {
    throw new SbxError(
      "policy.invalid",
      `the policy has ${rules.length} rules, the limit is ${RULES_MAX}`,
    );
  }
  const replacedIds = new Set(rules.filter(({ layer }) => layer === "default").map(({ id }) => id));
  const problems: string[] = [];
  const rulesByKey = new Map<string, Rule>();
  const compiled: CompiledRule[] = [];
  for (const rule of [...rules, ...DEFAULT_RULES.filter(({ id }) => !replacedIds.has(id))]) {
    const key = `${LAYERS.indexOf(rule.layer)} ${rule.id}`;
    const twin = rulesByKey.get(key);
    if (twin) {
      problems.push(`${ruleLabel(rule)} is defined twice, first at ${twin.file ?? "?"}:${twin.line ?? "?"}`);
    }
    rulesByKey.set(key, rule);
    try {
      compiled.push(compileRule(rule));
    } catch (error) {
      if (!(error instanceof SbxError)) throw error;
      problems.push(error.message);
    }
  }
  if (problems.length) {
    const more = problems.length - PROBLEMS_SHOWN;
    throw new SbxError(
      "policy.invalid",
      problems.slice(0, PROBLEMS_SHOWN).join("\n") + (more > 0 ? `\n… and ${more} more` : ""),
      { hint: "run sbx-admin policy check FILE to check rules before use" },
    );
  }
  const policy = new Policy(compiled, new Set(corp));
  if (policy.counters.length > HISTORY_COUNTERS_MAX) {
    throw new SbxError(
      "policy.invalid",
      `the rules ask ${policy.counters.length} questions of history, the limit is ${HISTORY_COUNTERS_MAX}`,
    );
  }
  return policy;
}

/** Rules by the layer that brought them. */
export interface RuleLayers {
  corp: { rules: readonly Rule[] };
  profile: { rules: readonly Rule[] };
  /** of the folder that the VM works on; they can only take away */
  project?: NarrowingRules;
}

/**
 * Compiles the rules of all layers; a default rule of corp replaces the profile's with the same id.
 * @throws {SbxError} `policy.invalid`
 */
export function compileLayers({ corp, profile, project = [] }: RuleLayers): Policy {
  const corpDefaults = new Set(corp.rules.filter(({ layer }) => layer === "default").map(({ id }) => id));
  const profileRules = profile.rules.filter(({ layer, id }) => layer !== "default" || !corpDefaults.has(id));
  return compilePolicy([...corp.rules, ...narrowing(project), ...profileRules], corp.rules);
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
 * An event as others read it; mostly none. Rules that restrict hold for these readings too: the upstream may
 * read the path `/x%2Fadmin` as `/x/admin`, a program goes by its path and by its name, and the kernel runs
 * the file that a link leads to.
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

// Methods that servers take instead of a request's own (docs/design/contracts/05-policy.md §5, "Methods"):
// frameworks read one from a header, from the query or from a form, so that browsers can send it.

/** Most methods that one request may name; more are refused, since each costs an evaluation. */
const METHODS_MAX = 8;

/** Parameters of a query or a form (Rails, Laravel, Symfony, WordPress; Salesforce), in lower case. */
const PARAMETER = /^_(?:http)?method$/i;

const METHOD = /^[A-Z]{1,32}$/;

/** Name of a part of a `multipart/form-data` body. */
const PART = /\bname\s*=\s*"?_(?:http)?method\b/gi;

/** End of the head of a part, and its beginning. */
const PART_BODY = /\n\r?\n([A-Za-z]+)/;

/** Most parts of one name that are read; a form has one. */
const PARTS_MAX = 64;

/** A member of a JSON object with such a name; the text may be cut, so it is not parsed. */
const MEMBER = /(?<!\\)"_(?:http)?method"\s*:\s*"([A-Za-z]+)"/gi;

/** An escaped letter or `_` in JSON. */
const LETTER = /\\u00([4-7][0-9a-f])/gi;

/**
 * A request as servers may read its method otherwise; mostly none.
 *
 * @throws {Error} more than {@linkcode METHODS_MAX} methods
 */
function methodReadings(event: Event): Event[] {
  const request = event.http?.request;
  if (request?.method === undefined) return [];
  const named: string[] = [];
  for (const name in request.headers) {
    if (isMethodOverride(name)) named.push(...request.headers[name].flatMap((value) => value.split(",")));
  }
  if (request.query) named.push(...parametersOf(request.query));
  if (request.body?.text) named.push(...methodsOf(request.body, request.body.text));
  if (named.length === 0) return [];
  const methods = new Set(named.map((name) => name.trim().toUpperCase()).filter((name) => METHOD.test(name)));
  methods.delete(request.method);
  if (methods.size > METHODS_MAX) throw new Error(`the request names more than ${METHODS_MAX} methods`);
  return [...methods].map((method) => withValue(event, "http.request.method", method));
}

/** The same of a record; a request with too many methods has been blocked. */
function namedMethods(event: Event): Event[] {
  try {
    return methodReadings(event);
  } catch {
    return [];
  }
}

/** Methods in a body: of a form, or of JSON, which some frameworks read as one. */
function methodsOf({ content_type = "" }: HttpBody, text: string): string[] {
  const type = content_type.toLowerCase();
  // Names in bodies are exact, and `includes` takes a tenth of a pattern's time.
  const isNamed = text.includes("_method") || text.includes("_httpMethod");
  if (type.includes("multipart/")) return isNamed ? partsOf(text) : [];
  if (type.includes("x-www-form-urlencoded")) return isNamed || text.includes("%") ? parametersOf(text) : [];
  if (!type.includes("json") || !isNamed && !text.includes("\\u00")) return [];
  return [...text.replace(LETTER, unescapeLetter).matchAll(MEMBER)].map(([, method]) => method);
}

/** @throws {Error} more than {@linkcode PARTS_MAX} parts */
function partsOf(text: string): string[] {
  const methods: string[] = [];
  let count = 0;
  for (const { index } of text.matchAll(PART)) {
    if (++count > PARTS_MAX) throw new Error(`the request names a method more than ${PARTS_MAX} times`);
    const method = PART_BODY.exec(text.slice(index))?.[1];
    if (method !== undefined) methods.push(method);
  }
  return methods;
}

function parametersOf(text: string): string[] {
  // An escape may hide each letter of the name.
  if (!/method|%/i.test(text)) return [];
  return [...new URLSearchParams(text.replaceAll(";", "&"))]
    .filter(([name]) => PARAMETER.test(name)).map(([, value]) => value);
}

function unescapeLetter(_: string, digits: string): string {
  return String.fromCharCode(parseInt(digits, 16));
}
