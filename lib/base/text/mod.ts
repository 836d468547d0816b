/** Text helpers: counts with nouns, words for shells, and "did you mean". */
export { count, decodeUtf8, escapeBytes, quoteWord } from "./bytes.ts";
export { didYouMean, nearest, nearestId, suggestion } from "./nearest.ts";
