/**
 * Compiler of Sigma's rule language, to the plan that matchers run
 * (docs/design/contracts/06-detection.md §6). Loads the YAML parser.
 */
import { blake3 } from "../../base/hash/mod.ts";
import { canonicalJson } from "../../base/json/mod.ts";
import type { Owner } from "../ir/ir.ts";
import { entryOf, type MapNode, scalarOf, type TreeNode } from "../tree/mod.ts";
import { quote } from "../sigma/notes.ts";
import { type Correlation, readCorrelation } from "./correlation.ts";
import { type Detection, readDetection } from "./detection.ts";
import { type DocumentKind, readDocuments, type RuleDocument, type RuleFile } from "./document.ts";
import type { Placeholders } from "./modifier.ts";
import type { RuleNote } from "./notes.ts";
import {
  ALL_SELECTIONS_MAX,
  FILTERED_MAX,
  pathOf,
  PLAN_RULES_MAX,
  PLAN_SCHEMA,
  type PlanCorrelation,
  type PlanExpr,
  type PlanMeta,
  type PlanRule,
  type SigmaPlan,
  sourcesOf,
} from "./plan.ts";
import { allOf } from "./selection.ts";
import { type Logsource, logsourceWords, readLogsource } from "./taxonomy.ts";

/**
 * What became of a document. `not_applicable`: no event of its log source happens here; `never_matches`: it
 * needs fields that events do not have.
 */
export type RuleStatus = "compiled" | "refused" | "not_applicable" | "never_matches";

export interface RuleOutcome {
  path: string;
  line: number;
  kind: DocumentKind;
  status: RuleStatus;
  /** of the rule in the plan */
  id?: string;
  title?: string;
  /** `<product>/<category>/<service>`, as far as the rule has them */
  logsource: string;
  /** constructs that keep it from compiling */
  reasons: RuleNote[];
  warnings: RuleNote[];
}

export interface RulesCompiled {
  plan: SigmaPlan;
  outcomes: RuleOutcome[];
}

export interface RuleOptions {
  pack_id: string;
  pack_version?: string;
  owner?: Owner;
  placeholders?: Placeholders;
}

/**
 * Compiles the rules of files; a document that is refused keeps no other from
 * compiling, unless that names it.
 */
export function compileRules(
  files: readonly RuleFile[],
  { pack_id, pack_version, owner = "user", placeholders = {} }: RuleOptions,
): RulesCompiled {
  const documents = files.flatMap(readDocuments);
  const compiler = new Compiler(documents, placeholders);
  const { rules, correlations } = compiler.run();
  const version = pack_version ?? blake3(canonicalJson({ rules, correlations })).slice(0, 16);
  return {
    plan: {
      schema: PLAN_SCHEMA,
      pack_id,
      pack_version: version,
      pack_status: "active",
      owner,
      rules,
      correlations,
    },
    outcomes: documents.map((document) => compiler.outcomeOf(document)),
  };
}

/** Maximum characters of an id that is made from a title. */
const SLUG_MAX = 64;

function slugOf(text: string): string {
  const slug = text.toLowerCase().normalize("NFKD").replace(/[^a-z0-9]+/g, "-").slice(0, SLUG_MAX);
  const plain = slug.replace(/^-+|-+$/g, "");
  return plain.length >= 3 ? plain : `rule-${plain || blake3(text).slice(0, 12)}`;
}

/** A rule that compiled, with what correlations and filters need of it. */
interface Compiled {
  document: RuleDocument;
  logsource: Logsource;
  rule: PlanRule;
}

class Compiler {
  readonly #compiled: Compiled[] = [];
  readonly #ids = new Map<RuleDocument, string>();
  readonly #byId = new Map<string, RuleDocument>();
  /** documents that compiled to something */
  readonly #done = new Set<RuleDocument>();
  /** rules to which filters were added, each counted for every filter */
  #filtered = 0;

  constructor(readonly documents: readonly RuleDocument[], readonly placeholders: Placeholders) {}

  run(): Pick<SigmaPlan, "rules" | "correlations"> {
    this.#nameAll();
    for (const document of this.#ofKind("rule")) this.#compileRule(document);
    for (const document of this.#ofKind("filter")) this.#applyFilter(document);
    const correlations = this.#correlations();
    const rules = this.#compiled.map(({ rule }) => rule);
    return { rules, correlations };
  }

  outcomeOf(document: RuleDocument): RuleOutcome {
    const { path, line, kind, title, notes, root } = document;
    const id = this.#ids.get(document);
    const codes = notes.errors.map(({ code }) => code);
    const status = this.#done.has(document)
      ? "compiled"
      : codes.length > 0 && codes.every((code) => code === "not-applicable")
      ? "not_applicable"
      : codes.length > 0 && codes.every((code) => code === "never-matches")
      ? "never_matches"
      : "refused";
    const { product, category, service } = logsourceWords(entryOf(root, "logsource")?.value);
    return {
      path,
      line,
      kind,
      status,
      ...(status === "compiled" && id !== undefined && { id }),
      ...(title !== undefined && { title }),
      logsource: [product ?? "-", category ?? "-", ...(service ? [service] : [])].join("/"),
      reasons: notes.errors,
      warnings: notes.warnings,
    };
  }

  #ofKind(kind: DocumentKind): RuleDocument[] {
    return this.documents.filter((document) => document.kind === kind && document.root);
  }

  /** Gives each document its id: of Sigma, or of its title. */
  #nameAll(): void {
    for (const document of this.documents) {
      const { sigma_id, title, name, notes, line } = document;
      if (title === undefined) continue;
      const id = sigma_id ?? slugOf(name ?? title);
      const other = this.#byId.get(id);
      if (other) {
        notes.reject("rule-id", line, `${other.path}:${other.line} has the id ${quote(id)} too`);
        continue;
      }
      this.#ids.set(document, id);
      this.#byId.set(id, document);
    }
    if (this.documents.length > PLAN_RULES_MAX) {
      this.documents[PLAN_RULES_MAX].notes.reject("limit", 1, `there are more than ${PLAN_RULES_MAX} rules`);
    }
  }

  #metaOf(document: RuleDocument, id: string): PlanMeta {
    const { sigma_id, title, severity = "medium", confidence, tags, path } = document;
    return {
      id,
      source_id: path,
      ...(sigma_id !== undefined && { sigma_id }),
      title: title!,
      severity,
      confidence,
      tags,
    };
  }

  #compileRule(document: RuleDocument): void {
    const { root, notes, line } = document;
    const id = this.#ids.get(document);
    const source = entryOf(root, "logsource");
    if (!source) notes.reject("logsource", line, "logsource is missing");
    const logsource = source && readLogsource(source.value, source.line, notes);
    const detection = entryOf(root, "detection");
    if (detection?.value.kind !== "map") {
      notes.reject("detection", detection?.line ?? line, "detection is missing: selections and a condition");
      return;
    }
    if (!logsource) return;
    const read = readDetection(detection.value, logsource, { notes, placeholders: this.placeholders });
    if (!read || !logsource || id === undefined || notes.errors.length > 0) return;
    const condition = allOf([logsource.where, read.condition]);
    if (read.condition === false) {
      const absent = notes.warnings.filter(({ code }) => code === "field-unknown").map(({ message }) =>
        message
      );
      notes.reject(
        "never-matches",
        detection.line,
        `the rule can never match: ${absent.join("; ") || "its condition"}`,
      );
      return;
    }
    const rule: PlanRule = {
      ...this.#metaOf(document, id),
      event_types: logsource.events,
      selections: read.selections,
      condition,
      ...(readsResponse(read) && { reads_response: true }),
    };
    this.#compiled.push({ document, logsource, rule });
    this.#done.add(document);
  }

  /** Adds the condition of a filter to the rules that it names. */
  #applyFilter(document: RuleDocument): void {
    const { root, notes } = document;
    const filter = entryOf(root, "filter")!;
    if (filter.value.kind !== "map") return notes.reject("filter", filter.line, "filter must be a map");
    const { value: map } = filter;
    const named = entryOf(map, "rules");
    const targets = this.#targetsOf(root!, map, document);
    if (targets.length === 0) {
      return notes.reject("filter", named?.line ?? filter.line, "the filter is for no rule that compiled");
    }
    this.#filtered += targets.length;
    if (this.#filtered > FILTERED_MAX) {
      return notes.reject("limit", filter.line, `filters are for more than ${FILTERED_MAX} rules in all`);
    }
    for (const target of targets) {
      const read = readDetection(map, target.logsource, {
        notes,
        placeholders: this.placeholders,
        ignored: ["rules"],
        offset: target.rule.selections.length,
      });
      if (!read) return;
      if (target.rule.selections.length + read.selections.length > ALL_SELECTIONS_MAX) {
        const most = `${ALL_SELECTIONS_MAX} selections with its filters`;
        return notes.reject("limit", filter.line, `the rule ${quote(target.rule.id)} has more than ${most}`);
      }
      target.rule.selections.push(...read.selections);
      target.rule.condition = allOf([...conjuncts(target.rule.condition), read.condition]);
      if (readsResponse(read)) target.rule.reads_response = true;
    }
    if (notes.errors.length === 0) this.#done.add(document);
  }

  /** The rules that a filter names; all of its log source without names, or with `any`. */
  #targetsOf(root: MapNode, filter: MapNode, { notes }: RuleDocument): Compiled[] {
    const node = entryOf(filter, "rules")?.value;
    const words = logsourceWords(entryOf(root, "logsource")?.value);
    const isAny = !node || scalarOf(node) === "any" || node.kind === "list" && node.items.length === 0;
    const names: TreeNode[] = isAny || !node ? [] : node.kind === "list" ? node.items : [node];
    const wanted = new Set(names.map((name) => this.#find(String(scalarOf(name)))));
    names.forEach((name) => {
      const text = String(scalarOf(name));
      if (!this.#find(text)) notes.warn("filter", name.line, `there is no rule ${quote(text)}`);
    });
    return this.#compiled.filter(({ document, logsource }) =>
      isAny
        ? (["product", "category", "service"] as const).every((key) =>
          words[key] === undefined || words[key] === logsource[key]
        )
        : wanted.has(document)
    );
  }

  /** Finds a document by its id or name. */
  #find(reference: string): RuleDocument | undefined {
    return this.#byId.get(reference.toLowerCase()) ??
      this.documents.find(({ name, title }) => name === reference && title !== undefined);
  }

  /** Correlations behind the ones that they refer to. */
  #correlations(): PlanCorrelation[] {
    const read = new Map<RuleDocument, Correlation>();
    for (const document of this.#ofKind("correlation")) {
      const correlation = readCorrelation(document.root!, document.notes);
      if (correlation && document.notes.errors.length === 0) read.set(document, correlation);
    }
    const plans = new Map<RuleDocument, PlanCorrelation>();
    for (let before = -1; before < plans.size;) {
      before = plans.size;
      for (const [document, correlation] of read) {
        if (plans.has(document)) continue;
        const targets = correlation.rules.map((name) => this.#find(name));
        if (targets.every((target) => target && (this.#done.has(target) && target.kind !== "filter"))) {
          plans.set(document, this.#planOf(document, correlation, targets as RuleDocument[], plans));
          this.#done.add(document);
        }
      }
    }
    for (const [document, { rules }] of read) {
      if (!plans.has(document)) this.#explain(document, rules);
    }
    return [...plans.values()];
  }

  #explain({ notes, root }: RuleDocument, rules: string[]): void {
    const { line } = entryOf(root, "correlation")!;
    for (const name of rules) {
      const target = this.#find(name);
      if (!target) notes.reject("correlation", line, `there is no rule ${quote(name)}`);
      else if (
        target.notes.errors.some(({ code }) => code === "not-applicable" || code === "never-matches")
      ) {
        notes.reject(target.notes.errors[0].code, line, `the rule ${quote(name)} never matches here`);
      } else if (!this.#done.has(target)) {
        notes.reject("correlation", line, `the rule ${quote(name)} did not compile, or refers to this one`);
      }
    }
    if (notes.errors.length === 0) {
      notes.reject("correlation", line, "correlations cannot refer to each other in a circle");
    }
  }

  #planOf(
    document: RuleDocument,
    { type, rules: names, groupBy, timespan_ms, count, field, aliases, generate }: Correlation,
    targets: RuleDocument[],
    plans: ReadonlyMap<RuleDocument, PlanCorrelation>,
  ): PlanCorrelation {
    const { notes, root } = document;
    const { line } = entryOf(root, "correlation")!;
    const bases = targets.flatMap((target) => this.#basesOf(target, plans));
    const sources = (base: Compiled, field: string): string[] => {
      const alias = Object.hasOwn(aliases, field) ? aliases[field] : undefined;
      const key = alias && Object.keys(alias).find((name) => this.#find(name) === base.document);
      const name = key === undefined ? field : alias![key];
      const found = base.logsource.sources(name);
      if (!found) notes.warn("field-unknown", line, `field ${quote(name)} is never there`);
      return found ?? [];
    };
    targets.forEach((target, at) => {
      if (!generate) this.#silence(target, plans);
      const near = targets.indexOf(target);
      if (near !== at) notes.warn("correlation", line, `the rule ${quote(names[at])} is named twice`);
    });
    return {
      ...this.#metaOf(document, this.#ids.get(document)!),
      type,
      rules: targets.map((target) => this.#ids.get(target)!),
      timespan_ms,
      count,
      group_by: Object.fromEntries(
        bases.map((base) => [base.rule.id, groupBy.map((field) => sources(base, field))]),
      ),
      ...(field !== undefined && {
        field: Object.fromEntries(bases.map((base) => [base.rule.id, sources(base, field)])),
      }),
    };
  }

  /** The rules below a rule or a correlation. */
  #basesOf(target: RuleDocument, plans: ReadonlyMap<RuleDocument, PlanCorrelation>): Compiled[] {
    const below = plans.get(target)?.group_by;
    return this.#compiled.filter(({ document, rule }) =>
      below ? Object.hasOwn(below, rule.id) : document === target
    );
  }

  #silence(target: RuleDocument, plans: ReadonlyMap<RuleDocument, PlanCorrelation>): void {
    const below = plans.get(target) ?? this.#compiled.find(({ document }) => document === target)?.rule;
    if (below) below.silent = true;
  }
}

/** Parts that all hold: the conditions of many filters stand beside each other, not within each other. */
function conjuncts(expr: PlanExpr): PlanExpr[] {
  return typeof expr === "object" && "all" in expr ? expr.all : [expr];
}

function readsResponse({ selections, condition }: Detection): boolean {
  const exprs: PlanExpr[] = [condition, ...selections];
  return exprs.flatMap(sourcesOf).some((source) => /\.response(\.|$)/.test(pathOf(source) ?? ""));
}
