/** JSON from outside, with a nesting limit; canonical JSON, which is hashed and signed. */
export { readAnswer } from "./answer.ts";
export { canonicalJson } from "./canonical.ts";
export { jsonPattern, type KnownShape, KnownTexts } from "./known.ts";
export {
  isDeeper,
  JSON_DEPTH_MAX,
  NestingError,
  parseJson,
  parseMessage,
  ReservedKeyError,
} from "./parse.ts";
