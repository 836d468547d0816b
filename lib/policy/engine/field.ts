/** Field references in a parsed expression, and what is wrong with them. */
import type { ASTNode } from "@marcbachmann/cel-js";
import { catalogue, nearestField } from "../../event/mod.ts";

/** A match expression that is refused; `at` is an offset into its text. */
export class MatchError extends Error {
  constructor(message: string, readonly at = 0) {
    super(message);
  }
}

/** A field of the catalogue, and the keys that follow it into a map or a dynamic value. */
export interface FieldReference {
  path: string;
  rest: string[];
}

/** Names of the language itself: its types and namespaces. */
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

/** Names of a chain `a.b.c`; `undefined` when it begins with anything but a name. */
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
 * The field that a chain refers to; `undefined` for a macro's own variable and for what is no chain.
 *
 * @throws MatchError for a name that no event has, with what it is nearest to
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
  throw unknownField(names, node.start);
}

/** Paths of the fields of an object such as `http.request`; empty when there is no such object. */
export function fieldsBelow(object: string): string[] {
  return [...catalogue.keys()].filter((path) => path.startsWith(`${object}.`));
}

function unknownField(names: string[], at: number): MatchError {
  const path = names.join(".");
  const below = fieldsBelow(path);
  if (below.length) {
    return new MatchError(`${path} is an object; compare one of its fields, such as ${below[0]}`, at);
  }
  if (!ROOTS.has(names[0]) && names.length === 1) {
    const near = nearestField(path);
    return new MatchError(`unknown name ${path}${near ? `; did you mean ${near}?` : ""}`, at);
  }
  const near = nearestField(path) ?? sameLastName(names);
  return new MatchError(`unknown field ${path}${near ? `; did you mean ${near}?` : ""}`, at);
}

/** A field with the same last name in the same family: `http.host` means `http.request.host`. */
function sameLastName(names: string[]): string | undefined {
  return [...catalogue.keys()].find((path) =>
    path.startsWith(`${names[0]}.`) && path.endsWith(`.${names.at(-1)}`)
  );
}
