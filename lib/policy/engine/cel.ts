/** The CEL environment of rules: typed variables of the catalogue, absent fields, a budget, and our functions. */
import { Environment } from "@marcbachmann/cel-js";
import { catalogue } from "../../event/mod.ts";
import { inCidr, isPrivateHost, parseCidr } from "../../base/address/address.ts";
import { variableOf } from "./flat.ts";
import { regex } from "./regex.ts";

/** What one evaluation of one rule may cost: a step of a macro counts 10, a character that a regex reads 1. */
export const COST_MAX = 1_000_000;
const STEP_COST = 10;

/** A rule went over {@linkcode COST_MAX}. */
export class CostExceeded extends Error {
  override message = `it costs more than its budget of ${COST_MAX} steps on this event`;
}

let spent = 0;

/** Starts the budget of the next evaluation. Evaluation is synchronous, so one counter is enough. */
export function resetCost(): void {
  spent = 0;
}

function spend(cost: number): void {
  spent += cost;
  if (spent > COST_MAX) throw new CostExceeded();
}

/** What a variable may hold: structure limits of one expression. */
const LIMITS = {
  maxAstNodes: 50_000,
  maxDepth: 100,
  maxListElements: 10_000,
  maxMapEntries: 1000,
  maxCallArguments: 8,
};

// The library types neither the evaluator nor the checker that it hands to macros.
// deno-lint-ignore no-explicit-any
type Any = any;

/** Codes of the errors that say "this is not there". */
const ABSENT = new Set(["unknown_variable", "no_such_key", "index_out_of_bounds"]);

/** `__is(f…, e)`: e, but false when a field f, or anything that e reads, is absent (contracts.md §5). */
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

/** `__has(f, g…)`: one of the fields is there. */
function hasMacro({ args }: Any) {
  const fields: string[] = args.map((node: Any) => node.args);
  return {
    typeCheck: (checker: Any) => checker.getType("bool"),
    evaluate: (_: unknown, __: unknown, context: Any) =>
      fields.some((field) => context.getValue(field) !== undefined),
  };
}

/** `__meter(e)`: e, after its size is paid for; `__steps(e)`: e as the range of a macro. */
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

/** Most fields that `__is` and `__has` take; more are nested. */
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
  environment.registerFunction("__meter(ast): dyn", meterMacro(sizeOf) as Any);
  environment.registerFunction("__steps(ast): dyn", meterMacro((value) => STEP_COST * sizeOf(value)) as Any);
  environment.registerFunction("string.__matches(string): bool", (text: string, pattern: string) => {
    spend(text.length);
    return regex(pattern).test(text);
  });
  environment.registerFunction(
    "string.__lowerAscii(): string",
    (text: string) => text.replace(/[A-Z]+/g, (letters) => letters.toLowerCase()),
  );
  environment.registerFunction(
    "string.__upperAscii(): string",
    (text: string) => text.replace(/[a-z]+/g, (letters) => letters.toUpperCase()),
  );
  environment.registerFunction("is_private_host(string): bool", (host: string) => isPrivateHost(host));
  environment.registerFunction(
    "in_domain(string, string): bool",
    (host: string, domain: string) => host === domain || host.endsWith(`.${domain}`),
  );
  environment.registerFunction("in_cidr(string, string): bool", (host: string, cidr: string) => {
    const network = parseCidr(cidr);
    if (!network) throw new Error(`"${cidr}" is no CIDR network`);
    return inCidr(host, network);
  });
  return environment;
}

/** The environment in which lowered expressions are checked and run. */
export const environment = createEnvironment();

/** A second one, with the fields as people write them, for the places of type errors. */
export function nestedEnvironment(): Environment {
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
  nested.registerFunction("in_domain(string, string): bool", () => false);
  nested.registerFunction("in_cidr(string, string): bool", () => false);
  return nested;
}
