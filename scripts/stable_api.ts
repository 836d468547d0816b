/**
 * The stable part of the API in schemas/api.v1.json, which only grows (docs/guides/integrators.md):
 * `make docs` refuses to write a form of it that breaks clients of the one before.
 */
import { STABLE_ROUTES } from "../lib/client/api/stable.ts";

/** A JSON value of an OpenAPI document. */
// deno-lint-ignore no-explicit-any
type Node = any;

export const STABLE_FILE = "schemas/api.v1.json";

/** The document with the stable routes alone, and the shapes that they use. */
export function stableDocument(document: Node): Node {
  const paths: Node = {};
  for (const route of STABLE_ROUTES) {
    const [method, path] = route.split(" ");
    const operation = document.paths[path]?.[method.toLowerCase()];
    if (!operation) throw new Error(`lib/client/api/stable.ts names ${route}, which is not a route`);
    (paths[path] ??= {})[method.toLowerCase()] = operation;
  }
  const schemas: Node = {};
  const collect = (node: Node): void => {
    if (Array.isArray(node)) return node.forEach(collect);
    if (node === null || typeof node !== "object") return;
    const name = nameOf(node);
    if (name !== undefined && !(name in schemas)) {
      schemas[name] = document.components.schemas[name];
      collect(schemas[name]);
    }
    Object.values(node).forEach(collect);
  };
  collect(paths);
  const sorted = Object.fromEntries(Object.entries(schemas).sort(([a], [b]) => a < b ? -1 : 1));
  const { openapi, info, components: { securitySchemes } } = document;
  return {
    openapi,
    info: { title: info.title, version: "1" },
    components: { schemas: sorted, securitySchemes },
    paths,
  };
}

/** Changes that break a client of `before`, one sentence each. */
export function breakingChanges(before: Node, after: Node): string[] {
  const problems: string[] = [];
  for (const [path, methods] of Object.entries<Node>(before.paths)) {
    for (const [method, old] of Object.entries<Node>(methods)) {
      const route = `${method.toUpperCase()} ${path}`;
      const now = after.paths[path]?.[method];
      if (!now) {
        problems.push(`${route}: the route is gone`);
        continue;
      }
      const comparison = new Comparison(before, after, problems);
      comparison.parameters(old.parameters ?? [], now.parameters ?? [], route);
      for (const type of Object.keys(old.requestBody?.content ?? {})) {
        const content = now.requestBody?.content[type];
        if (!content) problems.push(`${route}: it no longer takes ${type}`);
        else comparison.request(old.requestBody.content[type].schema, content.schema, `${route} body`);
      }
      if (now.requestBody?.required && !old.requestBody?.required) {
        problems.push(`${route}: a body is required now`);
      }
      for (const [type, { schema }] of Object.entries<Node>(old.responses["200"]?.content ?? {})) {
        const content = now.responses["200"]?.content?.[type];
        if (!content) problems.push(`${route}: it no longer answers ${type}`);
        else comparison.answer(schema, content.schema, `${route} answer`);
      }
    }
  }
  return [...new Set(problems)];
}

/** Limits of values in requests, and the direction in which they may move. */
const LIMITS = { maximum: 1, maxLength: 1, maxItems: 1, minimum: -1, minLength: -1, minItems: -1 } as const;

class Comparison {
  readonly #seen = new Set<string>();

  constructor(readonly before: Node, readonly after: Node, readonly problems: string[]) {}

  parameters(old: Node[], now: Node[], at: string): void {
    for (const each of old) {
      const same = now.find(({ name, in: where }) => name === each.name && where === each.in);
      if (!same) this.problems.push(`${at}: the parameter ${each.name} is gone`);
      else this.request(each.schema, same.schema, `${at} ${each.name}`);
    }
    for (const { name, in: where, required } of now) {
      const same = old.find((each) => each.name === name && each.in === where);
      if (required && !same?.required) this.problems.push(`${at}: the parameter ${name} is required now`);
    }
  }

  /** Every value that was taken is taken. */
  request(old: Node, now: Node, at: string): void {
    const [a, b] = this.#resolve(old, now, `request ${at}`);
    if (!a) return;
    if (a.anyOf || b.anyOf) {
      for (const [index, each] of (a.anyOf ?? [a]).entries()) {
        const others: Node[] = b.anyOf ?? [b];
        if (!others.some((other) => this.#trial().takes(each, other))) {
          this.problems.push(`${at}: form ${index + 1} is no longer taken`);
        }
      }
      return;
    }
    const types = typesOf(b);
    for (const type of typesOf(a)) {
      if (types.length > 0 && !types.includes(type)) this.problems.push(`${at}: ${type} is no longer taken`);
    }
    for (const value of b.enum ? a.enum ?? [] : []) {
      if (!b.enum.includes(value)) this.problems.push(`${at}: "${value}" is no longer taken`);
    }
    if (b.enum && !a.enum || b.pattern !== undefined && b.pattern !== a.pattern) {
      this.problems.push(`${at}: fewer values are taken`);
    }
    for (const [limit, way] of Object.entries(LIMITS)) {
      const [first, second] = [a[limit], b[limit]];
      if (second !== undefined && (first === undefined || (second - first) * way < 0)) {
        this.problems.push(`${at}: ${limit} is ${second} now`);
      }
    }
    for (const name of b.required ?? []) {
      if (!a.required?.includes(name)) this.problems.push(`${at}: the field ${name} is required now`);
    }
    for (const [name, field] of Object.entries(a.properties ?? {})) {
      const same = b.properties?.[name];
      if (same) this.request(field, same, `${at}.${name}`);
      else this.problems.push(`${at}: the field ${name} is gone`);
    }
    if (a.items && b.items) this.request(a.items, b.items, `${at}[]`);
    if (typeof a.additionalProperties === "object" && typeof b.additionalProperties === "object") {
      this.request(a.additionalProperties, b.additionalProperties, `${at}{}`);
    }
  }

  /** Every field that was read can be read, with values of the same types; enums of answers may grow. */
  answer(old: Node, now: Node, at: string): void {
    const [a, b] = this.#resolve(old, now, `answer ${at}`);
    if (!a) return;
    if (a.anyOf || b.anyOf) {
      for (const [index, each] of (b.anyOf ?? [b]).entries()) {
        const others: Node[] = a.anyOf ?? [a];
        if (!others.some((other) => this.#trial().gives(other, each))) {
          this.problems.push(`${at}: form ${index + 1} is new`);
        }
      }
      return;
    }
    const types = typesOf(a);
    for (const type of typesOf(b)) {
      if (types.length > 0 && !types.includes(type)) this.problems.push(`${at}: it may be ${type} now`);
    }
    for (const name of a.required ?? []) {
      if (!b.required?.includes(name)) this.problems.push(`${at}: the field ${name} may be absent now`);
    }
    for (const [name, field] of Object.entries(a.properties ?? {})) {
      const same = b.properties?.[name];
      if (same) this.answer(field, same, `${at}.${name}`);
      else this.problems.push(`${at}: the field ${name} is gone`);
    }
    if (a.items && b.items) this.answer(a.items, b.items, `${at}[]`);
    if (typeof a.additionalProperties === "object" && typeof b.additionalProperties === "object") {
      this.answer(a.additionalProperties, b.additionalProperties, `${at}{}`);
    }
  }

  takes(old: Node, now: Node): boolean {
    this.request(old, now, "");
    return this.problems.length === 0;
  }

  gives(old: Node, now: Node): boolean {
    this.answer(old, now, "");
    return this.problems.length === 0;
  }

  #trial(): Comparison {
    return new Comparison(this.before, this.after, []);
  }

  /** The schemas behind references; nothing for a pair that was compared already, as in a recursive shape. */
  #resolve(old: Node, now: Node, at: string): [Node, Node] | [undefined, undefined] {
    const [first, second] = [nameOf(old), nameOf(now)];
    if (first !== undefined && second !== undefined) {
      const key = `${at.split(" ")[0]} ${first} ${second}`;
      if (this.#seen.has(key)) return [undefined, undefined];
      this.#seen.add(key);
    }
    const resolved = [resolve(this.before, old), resolve(this.after, now)] as const;
    return [merged(this.before, resolved[0]), merged(this.after, resolved[1])];
  }
}

function nameOf(node: Node): string | undefined {
  return /^#\/components\/schemas\/(.+)$/.exec(node?.$ref ?? "")?.[1];
}

function resolve(document: Node, node: Node): Node {
  const name = nameOf(node);
  return name === undefined ? node : document.components.schemas[name];
}

/** A shape with the fields of all its parts. */
function merged(document: Node, node: Node): Node {
  if (!node.allOf) return node.oneOf ? { ...node, anyOf: node.oneOf } : node;
  const parts = [node, ...node.allOf.map((part: Node) => merged(document, resolve(document, part)))];
  return {
    ...Object.assign({}, ...parts),
    properties: Object.assign({}, ...parts.map(({ properties }) => properties)),
    required: parts.flatMap(({ required }) => required ?? []),
  };
}

function typesOf({ type }: Node): string[] {
  const types: string[] = type === undefined ? [] : [type].flat();
  // Every whole number is a number.
  return types.includes("number") ? [...types, "integer"] : types;
}

/** Writes {@linkcode STABLE_FILE}. @throws {Error} it would break clients */
export async function writeStable(document: Node): Promise<void> {
  const path = new URL(`../${STABLE_FILE}`, import.meta.url);
  const next = stableDocument(document);
  const before = await Deno.readTextFile(path).then(JSON.parse, () => next);
  const problems = breakingChanges(before, next);
  if (problems.length > 0) {
    throw new Error(`these changes break clients of the stable API:\n${problems.join("\n")}`);
  }
  await Deno.writeTextFile(path, JSON.stringify(next, null, 2) + "\n");
  console.log(path.pathname);
}
