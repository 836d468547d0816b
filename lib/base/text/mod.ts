/** Text helpers: counts with nouns, and "did you mean". */
export { nearest } from "./nearest.ts";
export { count } from "./plural.ts";
