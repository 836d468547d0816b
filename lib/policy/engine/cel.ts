/**
 * CEL environment of rules: typed catalogue variables, absent fields, a cost budget, and custom functions.
 */
import { Environment } from "@marcbachmann/cel-js";
import { isInCidr, isPrivateHost, parseCidr } from "../../base/address/mod.ts";
import { catalogue, providerOf } from "../../event/mod.ts";
import { isAbsent, type Key, variableOf } from "./field.ts";
import { historyValue } from "./history.ts";
import { compileRegex } from "./regex.ts";

/** Cost budget of one evaluation of one rule: 10 per macro step, 1 per character read by a regex. */
export const COST_MAX = 1_000_000;
const STEP_COST = 10;

/** Thrown when a rule exceeds {@linkcode COST_MAX}. */
export class CostExceeded extends Error {
  override message = `evaluation exceeded the budget of ${COST_MAX} steps`;
}

let spent = 0;

/** Resets the budget for the next evaluation. Evaluation is synchronous, so one counter is enough. */
export function resetCost(): void {
  spent = 0;
}

function spend(cost: number): void {
  spent += cost;
  if (spent > COST_MAX) throw new CostExceeded();
}

/** Deepest nesting of an expression. */
export const DEPTH_MAX = 100;
/** Structure limits of one expression. */
const LIMITS = {
  maxAstNodes: 50_000,
  maxDepth: DEPTH_MAX,
  maxListElements: 10_000,
  maxMapEntries: 1000,
  maxCallArguments: 8,
};

// deno-lint-ignore no-explicit-any -- the library does not type the evaluator and the checker of macros
type Any = any;

/** Error codes for absent values. */
const ABSENT = new Set(["unknown_variable", "no_such_key", "index_out_of_bounds"]);

/**
 * `__is(f…, e)`: e, or false if a field f or any value read by e is absent
 * (docs/design/contracts/05-policy.md §5).
 */
function isMacro({ args }: Any) {
  const expression = args[args.length - 1];
  const fields: string[] = args.slice(0, -1).map((node: Any) => node.args);
  return {
    typeCheck: (checker: Any, _: unknown, context: Any) => checker.check(expression, context),
    evaluate(evaluator: Any, _: unknown, context: Any) {
      for (let at = 0; at < fields.length; at++) if (context.getValue(fields[at]) === undefined) return false;
      try {
        return evaluator.run(expression, context);
      } catch (error) {
        if (ABSENT.has((error as { code: string }).code)) return false;
        throw error;
      }
    },
  };
}

/** `__at(f, keys, e)`: e, or false if f has no value at these keys: an exception would take 20 µs. */
function atMacro({ args: [field, keys, expression] }: Any) {
  const name: string = field.args;
  const path: Key[] = JSON.parse(keys.args);
  return {
    typeCheck: (checker: Any, _: unknown, context: Any) => checker.check(expression, context),
    evaluate: (evaluator: Any, _: unknown, context: Any) =>
      !isAbsent(context.getValue(name), path) && evaluator.run(expression, context),
  };
}

/** `__has(f, g…)`: true if any of the fields is present. */
function hasMacro({ args }: Any) {
  const fields: string[] = args.map((node: Any) => node.args);
  return {
    typeCheck: (checker: Any) => checker.getType("bool"),
    evaluate: (_: unknown, __: unknown, context: Any) =>
      fields.some((field) => context.getValue(field) !== undefined),
  };
}

/** `__meter(e)`: e, charged by its size; `__steps(e)`: e as the range of a macro, charged per element. */
function meterMacro(costOf: (value: unknown) => number) {
  return ({ args: [expression] }: Any) => ({
    typeCheck: (checker: Any, _: unknown, context: Any) => checker.check(expression, context),
    evaluate(evaluator: Any, _: unknown, context: Any) {
      const value = evaluator.run(expression, context);
      spend(costOf(value));
      return value;
    },
  });
}

function sizeOf(value: unknown): number {
  if (typeof value === "string") return 1 + (value.length >> 6);
  if (Array.isArray(value)) return 1 + value.length;
  return value !== null && typeof value === "object" ? 1 + Object.keys(value).length : 1;
}

/** Maximum fields of `__is` and `__has`; longer lists are nested. */
export const FIELDS_MAX = 3;

function createEnvironment(): Environment {
  const environment = new Environment({
    unlistedVariablesAreDyn: false,
    homogeneousAggregateLiterals: false,
    limits: LIMITS,
  });
  for (const [path, { cel }] of catalogue) environment.registerVariable(variableOf(path), cel);
  for (let count = 1; count <= FIELDS_MAX + 1; count++) {
    const asts = Array(count).fill("ast").join(", ");
    environment.registerFunction(`__is(${asts}): bool`, isMacro as Any);
    environment.registerFunction(`__has(${asts}): bool`, hasMacro as Any);
  }
  environment.registerFunction("__at(ast, ast, ast): bool", atMacro as Any);
  environment.registerFunction("__meter(ast): dyn", meterMacro(sizeOf) as Any);
  environment.registerFunction("__steps(ast): dyn", meterMacro((value) => STEP_COST * sizeOf(value)) as Any);
  environment.registerFunction("string.__matches(string): bool", (text: string, pattern: string) => {
    spend(text.length);
    return compileRegex(pattern).test(text);
  });
  environment.registerFunction(
    "string.__lowerAscii(): string",
    (text: string) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()),
  );
  environment.registerFunction(
    "string.__upperAscii(): string",
    (text: string) => text.replace(/[a-z]+/g, (letters) => letters.toUpperCase()),
  );
  environment.registerFunction("__history(string): int", (key: string) => historyValue(key) as bigint);
  environment.registerFunction("__seen(string): bool", (key: string) => historyValue(key) as boolean);
  environment.registerFunction("is_private_host(string): bool", (host: string) => isPrivateHost(host));
  environment.registerFunction(
    "is_model_host(string): bool",
    (host: string) => providerOf(host) !== undefined,
  );
  environment.registerFunction(
    "in_domain(string, string): bool",
    (host: string, domain: string) => host === domain || host.endsWith(`.${domain}`),
  );
  // Lowering refuses every network that is not a valid literal.
  environment.registerFunction(
    "in_cidr(string, string): bool",
    (host: string, cidr: string) => isInCidr(host, parseCidr(cidr)!),
  );
  return environment;
}

/** Environment for checking and running lowered expressions. */
export const environment = createEnvironment();

/** Creates an environment with fields as written in rules, to locate type errors. */
export function createNestedEnvironment(): Environment {
  const schema: Record<string, Any> = {};
  for (const [path, { cel }] of catalogue) {
    const parts = path.split(".");
    let here = schema;
    for (const part of parts.slice(0, -1)) here = here[part] ??= {};
    here[parts.at(-1)!] = cel;
  }
  const nested = new Environment({ homogeneousAggregateLiterals: false, limits: LIMITS });
  for (const [name, type] of Object.entries(schema)) {
    if (typeof type === "string") nested.registerVariable(name, type);
    else nested.registerVariable({ name, schema: type } as Any);
  }
  nested.registerFunction("is_private_host(string): bool", () => false);
  nested.registerFunction("is_model_host(string): bool", () => false);
  nested.registerFunction("in_domain(string, string): bool", () => false);
  nested.registerFunction("in_cidr(string, string): bool", () => false);
  return nested;
}
