/** YAML and JSON parsed to a tree with line numbers. Loads the YAML parser. */
export { explainJsonError, parseJson } from "./json.ts";
export * from "./tree.ts";
export { parseYaml, parseYamlAll } from "./yaml.ts";
