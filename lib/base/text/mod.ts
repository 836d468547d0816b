/** Text helpers: counts with nouns, and "did you mean". */
export { count, decodeUtf8, escapeBytes } from "./bytes.ts";
export { nearest, nearestId } from "./nearest.ts";
