/** TOML that people write: read with limits, with the place of each key, and edited without losing a comment. */
export { lineOf, parseToml, type Position, TomlDocument } from "./document.ts";
export { removeTable, setKey } from "./edit.ts";
export { encodeKey, encodeValue, type TomlValue } from "./encode.ts";
export { checkToml, describe, pathText, type Problem, problemError, problemsOf } from "./problem.ts";
export { readText, readToml, TOML_FILE_LIMIT } from "./read.ts";
export { scanKeys, type TomlKey } from "./scan.ts";
