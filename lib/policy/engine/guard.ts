/**
 * Guards that depend on rules: connections that pass uninspected, parts of events that bytes hide, and
 * private addresses (docs/design/contracts/05-policy.md §5).
 */
import type { ASTNode } from "@marcbachmann/cel-js";
import { type Event, familyOf, getterOf } from "../../event/mod.ts";
import { environment, resetCost } from "./cel.ts";
import { type CompiledRule, compileMatch, type Program, withValue } from "./compile.ts";
import { ALL_TYPES, type Condition, typesOf } from "./condition.ts";
import { chainOf, FlatEvent } from "./field.ts";
import { lower } from "./lower.ts";
import { DEFAULT_RULES, matchOf, type Rule } from "./rule.ts";
import { isPrivateHost } from "../../base/address/mod.ts";

// Connections that pass uninspected. Their content is not read, so only corp may pass a host whose content
// its rules cover (§5, "Rewrites").

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

// Parts of events that rules read, so that bytes that hide such a part can be refused
// (docs/design/contracts/05-policy.md §5, "Guards").

/**
 * True when a rule tests or rewrites a part of events; a built-in rule reads nothing.
 *
 * @param part a family (`model`), which a rule also reads by selecting its event types,
 * or a path (`http.request.body`)
 */
export function readsPart({ rule, types }: CompiledRule, part: string): boolean {
  if (DEFAULT_RULES.includes(rule)) return false;
  const isFamily = !part.includes(".");
  if (isFamily && (types & typesOf(`${part}.`)) !== 0 && (types !== ALL_TYPES || selectsFamily(rule))) {
    return true;
  }
  if (rule.rewrite?.some(({ path }) => isWithin(path, part))) return true;
  // Reading the syntax tree is slow for thousands of rules; a rule that reads the part has its last name in
  // the text.
  if (!rule.match.includes(part.slice(part.lastIndexOf(".") + 1))) return false;
  return chainsIn(environment.parse(rule.match).ast).some((path) => isWithin(path, part));
}

/** Fields whose values distinguish families. */
const KINDS = ["common.event_type", "common.source_engine"];

/**
 * True for a rule that distinguishes families by more than its event types: by a prefix, or by the engine.
 */
function selectsFamily({ match }: Rule): boolean {
  return KINDS.some((path) => match.includes(path.slice("common.".length))) &&
    chainsIn(environment.parse(match).ast).some((path) => KINDS.includes(path));
}

/** True for a path of a part of events, such as a field of an object. */
export function isWithin(path: string, part: string): boolean {
  return path === part || path.startsWith(`${part}.`);
}

/** Every chain of names in an expression, such as `http.request.host`. */
function chainsIn(node: unknown): string[] {
  if (Array.isArray(node)) return node.flatMap(chainsIn);
  if (node === null || typeof node !== "object" || !("op" in node)) return [];
  const chain = chainOf(node as ASTNode);
  return chain ? [chain.join(".")] : chainsIn((node as ASTNode).args);
}

// Commands over SSH (docs/design/contracts/05-policy.md §5, "SSH"): a rule that allows a host means its
// requests, and not that anything may run there.

const SSH = "http.request.ssh";

/** True when an allow names no command, of a command over SSH. */
export function overlooksCommand(rule: CompiledRule, { http }: Event): boolean {
  return http?.request?.ssh !== undefined && http.request.method === "CONNECT" &&
    rule.rule.action === "allow" && !readsPart(rule, SSH);
}

// Private addresses (docs/design/contracts/05-policy.md §5, "Private addresses"): a rule on a name, a method
// or a time opens none of them. Only a rule that distinguishes the address from a public one does.

/** Public addresses, one of which replaces a private one, to check whether a rule distinguishes them. */
const PUBLIC_V4 = ["192.0.2.1", "198.51.100.1"];
const PUBLIC_V6 = ["2001:db8::1", "2001:db8:1::1"];

/** Where events of one kind have their addresses. */
interface AddressField {
  /** addresses and names */
  read(event: Event): readonly string[] | undefined;
  /** Copies the event with one address, wherever it has it. */
  write(event: Event, address: string): Event;
}

/** Fields by the built-in rule on them. */
const FIELDS: Record<string, AddressField> = {
  "block-private-http": {
    read: ({ http }) => http?.request?.host === undefined ? undefined : [http.request.host],
    write(event, address) {
      const { host, headers } = event.http!.request;
      const changed = withValue(event, "http.request.host", address);
      if (headers?.["host"] === undefined) return changed;
      const named = headers["host"].map((value) => value.replace(bracketed(host), bracketed(address)));
      return withValue(changed, "http.request.headers", { ...headers, host: named });
    },
  },
  "block-private-dns": {
    read: ({ dns }) => dns?.response?.answers,
    write: (event, address) => withValue(event, "dns.response.answers", [address]),
  },
};

/** Keeps the built-in blocks of private addresses active before rules that do not name such an address. */
export class PrivateAddressGuard {
  readonly #blocks: readonly { block: CompiledRule; field: AddressField }[];

  /** @param rules the enabled rules, in order */
  constructor(rules: readonly CompiledRule[]) {
    this.#blocks = rules
      .filter(({ rule }) =>
        rule.layer === "default" && rule.action === "block" && Object.hasOwn(FIELDS, rule.id)
      )
      .map((block) => ({ block, field: FIELDS[block.rule.id] }));
  }

  /** True when an allow or ask that matches an event does not name each private address in it. */
  overlooks(rule: CompiledRule, event: Event): boolean {
    return this.#blocks.some(({ block, field }) => {
      // Behind the block, the event has passed it.
      if (rule.order > block.order) return false;
      const addresses = field.read(event);
      if (addresses === undefined) return false;
      // The built-in rules test no more than this; running one costs as much as the rest of a decision.
      if (DEFAULT_RULES.includes(block.rule) ? !addresses.some(isPrivateHost) : !holds(block, event)) {
        return false;
      }
      const found = addresses.filter((address) => holds(block, field.write(event, address)));
      // If no address alone is blocked, a rule file has replaced the built-in condition by another.
      return found.length === 0 || found.some((address) => !names(rule, field, event, address));
    });
  }
}

/** True when a rule matches an address and no public one in its place. */
function names(rule: CompiledRule, field: AddressField, event: Event, address: string): boolean {
  // The first one may be this machine's own, in a laboratory.
  const other = (address.includes(":") ? PUBLIC_V6 : PUBLIC_V4).find((each) => !isPrivateHost(each))!;
  return holds(rule, field.write(event, address)) && !holds(rule, field.write(event, other));
}

function holds({ program }: CompiledRule, event: Event): boolean {
  resetCost();
  try {
    return program(new FlatEvent(event)) === true;
  } catch {
    return false;
  }
}

function bracketed(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}
