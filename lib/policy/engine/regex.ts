/** RE2 regular expressions: linear time, so that no pattern can hang on any text. */
import { RE2JS } from "re2js";

/** Maximum pattern length, in characters. */
export const PATTERN_MAX = 2000;
/** Maximum compiled instructions of a pattern; rejects `(a{1000}){1000}`. */
const PROGRAM_MAX = 10_000;

/** Maximum compiled patterns in memory. Rules are edited and tried for as long as a process lives. */
export const REGEXES_MAX = 4096;

/** Compiled patterns, the one used last at the end. */
const cache = new Map<string, RE2JS>();

/** Compiles a pattern, and keeps the ones used last. @throws {Error} for an invalid pattern */
export function compileRegex(pattern: string): RE2JS {
  let regex = cache.get(pattern);
  if (regex) {
    // The order matters only where something may be dropped.
    if (cache.size === REGEXES_MAX) {
      cache.delete(pattern);
      cache.set(pattern, regex);
    }
  } else {
    if (pattern.length > PATTERN_MAX) throw new Error(`the pattern is longer than ${PATTERN_MAX} characters`);
    regex = RE2JS.compile(pattern);
    if (regex.programSize() > PROGRAM_MAX) throw new Error("the pattern is too large when compiled");
    if (cache.size === REGEXES_MAX) cache.delete(cache.keys().next().value!);
    cache.set(pattern, regex);
  }
  return regex;
}

/**
 * Literals contained in every match of `pattern`, found by a simple scan. They narrow a value to the few
 * patterns that can match it. Empty if none is certain.
 */
export function requiredLiterals(pattern: string): string[] {
  if (/\(\?[a-zA-Z]*[ixU]|\\[QpPx]/.test(pattern)) return [];
  const runs: string[] = [];
  let run = "";
  let depth = 0;
  const end = () => {
    if (run) runs.push(run);
    run = "";
  };
  for (let at = 0; at < pattern.length; at++) {
    let char = pattern[at];
    let literal = !"^$.[]()*+?{}|".includes(char);
    if (char === "|" && depth === 0) return [];
    if (char === "\\") {
      char = pattern[++at] ?? "";
      literal = /[^A-Za-z0-9]/.test(char);
    } else if (char === "[") at = closingBracket(pattern, at);
    else if (char === "(") depth++;
    else if (char === ")") depth--;
    else if (char === "{") at = closingBrace(pattern, at);
    // An optional or repeated character ends the run; a group may be absent as a whole.
    const next = pattern[at + 1] ?? "";
    if (!literal || depth > 0 || "*?{".includes(next || " ")) end();
    else {
      run += char;
      if (next === "+") end();
    }
  }
  end();
  return runs;
}

function closingBrace(pattern: string, from: number): number {
  const end = pattern.indexOf("}", from);
  return end < 0 ? pattern.length : end;
}

function closingBracket(pattern: string, from: number): number {
  let at = from + 1;
  if (pattern[at] === "^") at++;
  if (pattern[at] === "]") at++;
  for (; at < pattern.length && pattern[at] !== "]"; at++) {
    if (pattern[at] === "\\") at++;
    else if (pattern.startsWith("[:", at)) at = Math.max(at, pattern.indexOf(":]", at) + 1);
  }
  return at;
}
