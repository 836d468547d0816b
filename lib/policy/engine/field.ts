/** Fields of events in rules: references in parsed expressions, and their values as CEL variables. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue, type Event, getterOf, nearestField } from "../../event/mod.ts";

/** Error in a match expression; `at` is an offset into its text. */
export class MatchError extends Error {
  constructor(message: string, readonly at = 0) {
    super(message);
  }
}

/** Catalogue field, with further keys into a map or a dynamic value. */
export interface FieldReference {
  path: string;
  rest: string[];
}

/** CEL types and namespaces. */
const LANGUAGE = new Set([
  "bool",
  "int",
  "uint",
  "double",
  "string",
  "bytes",
  "list",
  "map",
  "null_type",
  "type",
  "cel",
  "google",
]);
const ROOTS = new Set([...catalogue.keys()].map((path) => path.split(".")[0]));

/** Names of a chain `a.b.c`; `undefined` for a chain that does not begin with a name. */
export function chainOf(node: ASTNode): string[] | undefined {
  const names: string[] = [];
  let here = node;
  while (here.op === ".") {
    names.unshift(here.args[1]);
    here = here.args[0];
  }
  return here.op === "id" ? [here.args, ...names] : undefined;
}

/**
 * Resolves a chain to a field; `undefined` for a macro variable and for other expressions.
 *
 * @throws {MatchError} for an unknown field, with the nearest one
 */
export function fieldOf(node: ASTNode, scope: ReadonlySet<string>): FieldReference | undefined {
  const names = chainOf(node);
  if (!names || scope.has(names[0]) || LANGUAGE.has(names[0])) return undefined;
  for (let length = names.length; length > 0; length--) {
    const path = names.slice(0, length).join(".");
    const field = catalogue.get(path);
    if (!field) continue;
    if (length < names.length && field.type !== "map") break;
    return { path, rest: names.slice(length) };
  }
  throw unknownFieldError(names, node.start);
}

/** Paths of the fields below an object such as `http.request`; empty for an unknown object. */
export function fieldsBelow(object: string): string[] {
  return [...catalogue.keys()].filter((path) => path.startsWith(`${object}.`));
}

function unknownFieldError(names: string[], at: number): MatchError {
  const path = names.join(".");
  const below = fieldsBelow(path);
  if (below.length) {
    return new MatchError(`${path} is an object; compare one of its fields, such as ${below[0]}`, at);
  }
  if (!ROOTS.has(names[0]) && names.length === 1) {
    const near = nearestField(path);
    return new MatchError(`unknown name ${path}${near ? `; did you mean ${near}?` : ""}`, at);
  }
  const near = nearestField(path) ?? fieldWithLastName(names);
  return new MatchError(`unknown field ${path}${near ? `; did you mean ${near}?` : ""}`, at);
}

/** Field with the same last name in the same family, such as `http.request.host` for `http.host`. */
function fieldWithLastName(names: string[]): string | undefined {
  return [...catalogue.keys()].find((path) =>
    path.startsWith(`${names[0]}.`) && path.endsWith(`.${names.at(-1)}`)
  );
}

// Events as CEL variables: one per catalogue field, so that an absent field is an undefined variable.

/** CEL variable of a field: `http.request.host` → `http__request__host`. */
export function variableOf(path: string): string {
  return path.replaceAll(".", "__");
}

/** Variables of one event, read on demand. CEL integers are bigints. */
export class FlatEvent {
  constructor(readonly event: Event) {}
}

for (const [path, { cel }] of catalogue) {
  const read = getterOf(path);
  Object.defineProperty(FlatEvent.prototype, variableOf(path), {
    get: cel === "int"
      ? function (this: FlatEvent) {
        const value = read(this.event);
        return value === undefined ? undefined : BigInt(value as number);
      }
      : function (this: FlatEvent) {
        return read(this.event);
      },
  });
}
