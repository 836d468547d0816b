/** JSON from outside: parsing with a limit of its nesting. */
export { isDeeper } from "./depth.ts";
export { JSON_DEPTH_MAX, NestingError, parseJson, parseMessage, ReservedKeyError } from "./parse.ts";
