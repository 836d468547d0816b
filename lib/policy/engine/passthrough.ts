/**
 * Connections that pass uninspected. Their content is not read, so only corp may pass a host whose content
 * its rules cover (docs/design/contracts/05-policy.md §5, "Rewrites").
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { type Event, familyOf, getterOf } from "../../event/mod.ts";
import { environment, resetCost } from "./cel.ts";
import { type CompiledRule, compileMatch, type Program } from "./compile.ts";
import { type Condition, typesOf } from "./condition.ts";
import { chainOf } from "./field.ts";
import { FlatEvent } from "./flat.ts";
import { lower } from "./lower.ts";
import { chainsIn } from "./part.ts";
import { matchOf, type Rule } from "./rule.ts";

/** Fields that a connection has in common with the requests in it. */
const KNOWN = /^(?:http\.request\.(?:host|port|scheme)|common\.(?!sequence|timestamp|labels|event_id).*)$/;
/** Rewrites of these fields are no change of content. */
const DESTINATION = /^http\.request\.(?:host|port|scheme)$/;
/** Types of the events that an inspected connection has. */
const INSIDE = ["http.request", "model.call"] as const;

const TYPES_INSIDE = typesOf("http.") | typesOf("model.");

type Test = Condition & { kind: "test" };

/** True for the event of a connection that is not inspected. */
export function isPassedThrough(event: Event): boolean {
  return event.http?.request?.method === "CONNECT" && event.http.request.scheme === "tls";
}

/** Finds the rules of corp that passing a connection would blind. */
export class PassthroughGuard {
  readonly #corp: ReadonlySet<Rule>;
  /** rules of corp that may read or change content */
  readonly rules: readonly CompiledRule[];
  readonly #conditions = new Map<CompiledRule, Condition>();
  readonly #programs = new Map<Test, Program>();

  /** @param corp rules that corp wrote */
  constructor(rules: readonly CompiledRule[], corp: ReadonlySet<Rule>) {
    this.#corp = corp;
    this.rules = rules.filter(({ rule, types }) =>
      corp.has(rule) && (types & TYPES_INSIDE) !== 0 &&
      (rule.action !== "allow" || rule.detection_level !== undefined)
    );
  }

  /** True for a rule that corp wrote. */
  isCorp(rule: Rule): boolean {
    return this.#corp.has(rule);
  }

  /**
   * Finds a rule of corp that reads the content of a connection, or changes it.
   *
   * @param by the rule that would pass the connection; corp's may
   * @param connection its event, with the fields known so far
   */
  blinded(by: Rule, connection: Event): Rule | undefined {
    if (this.#corp.has(by)) return undefined;
    return this.rules.find((each) => INSIDE.some((type) => this.#readsContent(each, type, connection)))
      ?.rule;
  }

  #readsContent(compiled: CompiledRule, type: typeof INSIDE[number], connection: Event): boolean {
    const { rule } = compiled;
    const inside = { ...connection, common: { ...connection.common, event_type: type } } as Event;
    const result = this.#evaluate(this.#conditionOf(compiled), inside);
    if (result === undefined) return true;
    if (!result) return false;
    // Such a rule holds for the connection itself, unless it acts on the connection's content.
    return type !== "http.request" || (rule.rewrite ?? []).some(({ path }) => !DESTINATION.test(path));
  }

  /** Evaluates a condition on an event inside; `undefined` when it depends on content. */
  #evaluate(condition: Condition, inside: Event): boolean | undefined {
    switch (condition.kind) {
      case "constant":
        return condition.value;
      case "not": {
        const value = this.#evaluate(condition.part, inside);
        return value === undefined ? undefined : !value;
      }
      case "test":
        return this.#evaluateTest(condition, inside);
    }
    const deciding = condition.kind === "or";
    const values = condition.parts.map((part) => this.#evaluate(part, inside));
    if (values.includes(deciding)) return deciding;
    return values.includes(undefined) ? undefined : !deciding;
  }

  #evaluateTest(test: Test, inside: Event): boolean | undefined {
    const family = familyOf(inside.common.event_type);
    const isForeign = (path: string) => path.split(".")[0] !== family && !path.startsWith("common.");
    if (test.strict.some(isForeign)) return false;
    const object = presenceOf(test.node);
    if (object !== undefined && isForeign(object)) return false;
    if (object === `${family}.request`) return true;
    // A request inside is no connection.
    const [probe] = test.probes;
    if (probe?.path === "http.request.method" && probe.op === "equals") {
      if (probe.values.every((value) => value === "CONNECT")) return false;
    }
    const isKnown = (path: string) =>
      KNOWN.test(path) && !isForeign(path) && getterOf(path)(inside) !== undefined;
    if (!chainsIn(test.node).every(isKnown)) return undefined;
    let program = this.#programs.get(test);
    if (!program) this.#programs.set(test, program = environment.parse(lower(test.node).text) as Program);
    resetCost();
    try {
      return program(new FlatEvent(inside)) === true;
    } catch {
      return undefined;
    }
  }

  #conditionOf(compiled: CompiledRule): Condition {
    let condition = this.#conditions.get(compiled);
    if (!condition) {
      this.#conditions.set(compiled, condition = compileMatch(matchOf(compiled.rule)).condition);
    }
    return condition;
  }
}

/** Path of a `has(path)`; `undefined` for any other test. */
function presenceOf(node: ASTNode): string | undefined {
  return node.op === "call" && node.args[0] === "has" ? chainOf(node.args[1][0])?.join(".") : undefined;
}
