/** TOML files written by people: read with limits and key positions, edited without losing comments. */
export {
  isTable,
  lineOf,
  parseToml,
  type Position,
  scanKeys,
  TomlDocument,
  type TomlKey,
} from "./document.ts";
export { appendTable, removeTable, setKey } from "./change.ts";
export { encodeKey, encodeValue, stringifyToml, type TomlValue } from "./edit.ts";
export { describeIssue } from "./issue.ts";
export { OwnToml } from "./own.ts";
export { checkToml, pathText, type Problem, problemError, problemsOf } from "./problem.ts";
export { readText, readToml, TOML_FILE_LIMIT } from "./read.ts";
