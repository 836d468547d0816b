/** YAML and JSON that people write, as a tree that knows its lines. */
export { jsonReason, parseJson } from "./json.ts";
export * from "./tree.ts";
export { parseYaml, parseYamlAll } from "./yaml.ts";
