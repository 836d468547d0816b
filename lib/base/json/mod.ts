/** JSON from outside, with a nesting limit; canonical JSON, which is hashed and signed. */
export { canonicalJson } from "./canonical.ts";
export { isDeeper } from "./depth.ts";
export { JSON_DEPTH_MAX, NestingError, parseJson, parseMessage, ReservedKeyError } from "./parse.ts";
