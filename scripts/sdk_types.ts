/**
 * Writes the types of the SDKs from schemas/api.v1.json: TypeScript's by openapi-typescript, which `make sdk`
 * installs, and Python's TypedDicts here, since no kept generator makes them without a runtime of its own.
 * `make sdk` runs it; a test of tests/sdk fails when a file is stale.
 */
import { fileURLToPath } from "node:url";

// deno-lint-ignore no-explicit-any
type Node = any;

/** A file of this repository. */
const fromRoot = (path: string) => fileURLToPath(new URL(`../${path}`, import.meta.url));

/** Generated file → its text. */
export async function sdkTypes(): Promise<Record<string, string>> {
  const api = JSON.parse(await Deno.readTextFile(fromRoot("schemas/api.v1.json")));
  return {
    "sdk/typescript/src/generated/api.ts": await typescriptTypes(),
    "sdk/python/src/sbx/types.py": pythonTypes(api.components.schemas),
  };
}

async function typescriptTypes(): Promise<string> {
  const program = fromRoot(".deno/sdk/node_modules/openapi-typescript/bin/cli.js");
  const command = new Deno.Command("node", {
    args: [program, fromRoot("schemas/api.v1.json")],
    stdout: "piped",
    stderr: "piped",
  });
  const { success, stdout, stderr } = await command.output();
  if (!success) throw new Error(`openapi-typescript failed: ${new TextDecoder().decode(stderr)}`);
  return new TextDecoder().decode(stdout);
}

/** Words that no field of a Python class can be called. */
const KEYWORDS = new Set([
  "from",
  "in",
  "is",
  "not",
  "and",
  "or",
  "class",
  "def",
  "global",
  "import",
  "pass",
]);
/** Most characters of a comment's line. */
const COMMENT_MAX = 110;

/** A module with a TypedDict for each shape. Shapes without a name get that of their field. */
export function pythonTypes(schemas: Record<string, Node>): string {
  const classes: string[] = [];
  const written = new Set<string>();
  const write = (name: string) => {
    if (written.has(name)) return;
    written.add(name);
    const bases: Node[] = schemas[name].allOf ?? [];
    // A class comes after the one that it extends.
    for (const { $ref } of bases) if ($ref !== undefined) write($ref.split("/").at(-1));
    typeOf(schemas[name], name, classes, true);
  };
  for (const name of Object.keys(schemas)) write(name);
  return `"""Shapes of the API. Generated from schemas/api.v1.json by scripts/sdk_types.ts; do not edit."""

from __future__ import annotations

from typing import Any, Literal, TypedDict, Union


${classes.join("\n\n\n")}
`;
}

/** The Python type of a schema; classes that it needs are added. @param named it is a shape of its own */
function typeOf(schema: Node, name: string, classes: string[], named = false): string {
  const ref = /^#\/components\/schemas\/(.+)$/.exec(schema.$ref ?? "")?.[1];
  if (ref !== undefined) return named ? alias(name, ref, classes) : ref;
  const type = bareType(schema, name, classes, named);
  return named && type !== name ? alias(name, type, classes) : type;
}

function alias(name: string, type: string, classes: string[]): string {
  // A string: the shape may be further below.
  classes.push(
    `${name} = ${/^(str|int|float|bool|Any|Literal\[.*\])$/.test(type) ? type : JSON.stringify(type)}`,
  );
  return name;
}

function bareType(schema: Node, name: string, classes: string[], named: boolean): string {
  const parts: Node[] | undefined = schema.anyOf ?? schema.oneOf;
  if (parts) return union(parts.map((part, at) => typeOf(part, `${name}${at + 1}`, classes)));
  if (schema.allOf) return dictOf(joined(schema), name, classes, named, schema.allOf);
  if (schema.enum) return `Literal[${schema.enum.map(literal).join(", ")}]`;
  if ("const" in schema) return `Literal[${literal(schema.const)}]`;
  if (Array.isArray(schema.type)) {
    return union(schema.type.map((type: string) => typeOf({ ...schema, type }, name, classes)));
  }
  switch (schema.type) {
    case "string":
      return "str";
    case "integer":
      return "int";
    case "number":
      return "float";
    case "boolean":
      return "bool";
    case "null":
      return "None";
    case "array":
      return `list[${typeOf(schema.items ?? {}, `${name}Item`, classes)}]`;
    case "object":
      return schema.properties ? dictOf(schema, name, classes, named) : mapOf(schema, name, classes);
    default:
      return "Any";
  }
}

function mapOf(schema: Node, name: string, classes: string[]): string {
  const { additionalProperties: values } = schema;
  return `dict[str, ${
    values && typeof values === "object" ? typeOf(values, `${name}Value`, classes) : "Any"
  }]`;
}

/** The own fields of a shape that is joined of parts. */
function joined({ allOf }: Node): Node {
  const own = allOf.filter(({ $ref }: Node) => $ref === undefined);
  return {
    properties: Object.assign({}, ...own.map(({ properties }: Node) => properties)),
    required: own.flatMap(({ required }: Node) => required ?? []),
  };
}

/**
 * Adds the class of an object. Python 3.10 has no mark for single fields: required
 * ones are in a class of their own.
 */
function dictOf(schema: Node, name: string, classes: string[], _named: boolean, allOf: Node[] = []): string {
  const bases = allOf.flatMap(({ $ref }) => $ref === undefined ? [] : [$ref.split("/").at(-1)]);
  const fields = Object.entries<Node>(schema.properties).map(([field, value]) => ({
    field,
    type: typeOf(value, `${name}${pascal(field)}`, classes),
    isRequired: schema.required?.includes(field) === true,
    about: value.description as string | undefined,
  }));
  const usable = fields.filter(({ field }) => !KEYWORDS.has(field));
  const keywords = fields.filter(({ field }) => KEYWORDS.has(field));
  const required = usable.filter(({ isRequired }) => isRequired);
  const optional = usable.filter(({ isRequired }) => !isRequired);
  if (keywords.length > 0) {
    const entries = keywords.map(({ field, type }) => `${JSON.stringify(field)}: ${JSON.stringify(type)}`);
    classes.push(`_${name}Keywords = TypedDict("_${name}Keywords", {${entries.join(", ")}}, total=False)`);
    bases.push(`_${name}Keywords`);
  }
  if (required.length > 0 && optional.length > 0) {
    classes.push(classText(`_${name}Required`, bases, required));
    classes.push(classText(name, [`_${name}Required`], optional, false));
  } else classes.push(classText(name, bases, usable, optional.length === 0));
  return name;
}

function classText(
  name: string,
  bases: string[],
  fields: { field: string; type: string; about?: string }[],
  total = true,
): string {
  const heads = [...(bases.length > 0 ? bases : ["TypedDict"]), ...(total ? [] : ["total=False"])];
  const lines = fields.flatMap(({ field, type, about }) => [
    ...(about === undefined ? [] : wrapped(about).map((line) => `    # ${line}`)),
    `    ${field}: ${type}`,
  ]);
  return `class ${name}(${heads.join(", ")}):\n${lines.length > 0 ? lines.join("\n") : "    pass"}`;
}

function wrapped(text: string): string[] {
  const lines = [""];
  for (const word of text.replaceAll("\n", " ").split(" ")) {
    if (lines.at(-1)!.length + word.length >= COMMENT_MAX) lines.push("");
    lines[lines.length - 1] = `${lines.at(-1)} ${word}`.trim();
  }
  return lines;
}

function union(types: string[]): string {
  const unique = [...new Set(types)];
  return unique.length === 1 ? unique[0] : `Union[${unique.join(", ")}]`;
}

function literal(value: unknown): string {
  return value === true ? "True" : value === false ? "False" : JSON.stringify(value);
}

function pascal(text: string): string {
  return text.split(/[^A-Za-z0-9]+/).map((part) => part.charAt(0).toUpperCase() + part.slice(1)).join("");
}

if (import.meta.main) {
  for (const [path, text] of Object.entries(await sdkTypes())) {
    await Deno.mkdir(fromRoot(path.replace(/\/[^/]+$/, "")), { recursive: true });
    await Deno.writeTextFile(fromRoot(path), text);
    console.log(path);
  }
}
