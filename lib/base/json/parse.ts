/** Nesting levels of JSON from outside (docs/design/contracts/14-limits.md §14). */
export const JSON_DEPTH_MAX = 64;

/** JSON nested too deep to be read. Callers that do not check for it treat it as invalid JSON. */
export class NestingError extends SyntaxError {
  override name = "NestingError";

  constructor(max: number) {
    super(`nested deeper than ${max} levels`);
  }
}

/** JSON with a key `__proto__`: readers that copy or check objects drop it silently, or change the copy. */
export class ReservedKeyError extends SyntaxError {
  override name = "ReservedKeyError";

  constructor() {
    super('written with a key "__proto__", which no reader takes');
  }
}

/**
 * Parses JSON that others wrote. Whatever reads the value (validation, rules, records) recurses,
 * and would overflow the stack on a value that is nested deep enough: such a text is refused
 * here, before there is a value.
 *
 * @param max nesting levels allowed
 * @throws {NestingError} nested deeper
 * @throws {ReservedKeyError} an object has a key `__proto__`
 * @throws {SyntaxError} not JSON
 */
export function parseJson(text: string, max = JSON_DEPTH_MAX): unknown {
  const value = parseMessage(text, max);
  // The key may be written with escapes.
  const mayHold = text.includes("__proto__") || text.includes("\\") && text.includes("\\u00");
  if (mayHold && hasReservedKey(value)) throw new ReservedKeyError();
  return value;
}

/**
 * As {@linkcode parseJson}, with any keys: for frames, where one odd key in the arguments of a tool must not
 * end the connection. Their readers keep a key `__proto__` as data, or drop it before anything acts on it.
 *
 * @throws {NestingError} nested deeper
 * @throws {SyntaxError} not JSON
 */
export function parseMessage(text: string, max = JSON_DEPTH_MAX): unknown {
  if (isDeeper(text, max)) throw new NestingError(max);
  return JSON.parse(text);
}

function hasReservedKey(value: unknown): boolean {
  if (typeof value !== "object" || value === null) return false;
  return Object.hasOwn(value, "__proto__") || Object.values(value).some(hasReservedKey);
}

/**
 * Tests whether JSON is nested deeper than `max` levels. A text with no more opening brackets than that
 * cannot be, so a count decides for nearly all of them.
 */
export function isDeeper(json: string, max: number): boolean {
  if (json.length <= max) return false;
  const left = max - countUpTo(json, "{", max + 1);
  if (left >= 0 && countUpTo(json, "[", left + 1) <= left) return false;
  let depth = 0;
  for (let at = 0; at < json.length; at++) {
    const unit = json.charCodeAt(at);
    if (unit === QUOTE) at = endOfString(json, at);
    else if (unit === BRACKET || unit === BRACE) {
      if (++depth > max) return true;
    } else if (unit === BRACKET + 2 || unit === BRACE + 2) depth--;
  }
  return false;
}

/** Occurrences of a character in a text, of which it looks at no more than `max`. */
function countUpTo(text: string, character: string, max: number): number {
  let count = 0;
  for (let at = text.indexOf(character); at >= 0 && count < max; at = text.indexOf(character, at + 1)) {
    count++;
  }
  return count;
}

const QUOTE = 34;
const BACKSLASH = 92;
const BRACKET = 91;
const BRACE = 123;

/** Index of the closing quote of the string that begins at `from`. */
function endOfString(json: string, from: number): number {
  for (let end = json.indexOf('"', from + 1); end >= 0; end = json.indexOf('"', end + 1)) {
    let escapes = 0;
    while (json.charCodeAt(end - 1 - escapes) === BACKSLASH) escapes++;
    if (escapes % 2 === 0) return end;
  }
  return json.length;
}
