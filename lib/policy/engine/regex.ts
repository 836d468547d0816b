/** Regular expressions in linear time: RE2, so no pattern can hang on any text. */
import { RE2JS } from "re2js";

/** Longest pattern. */
export const PATTERN_MAX = 2000;
/** Most instructions that a pattern may compile to: `(a{1000}){1000}` is refused. */
const PROGRAM_MAX = 10_000;

const compiled = new Map<string, RE2JS>();

/** The compiled pattern; every pattern is a literal of a rule, so there are few. @throws Error that says what is wrong */
export function regex(pattern: string): RE2JS {
  let known = compiled.get(pattern);
  if (!known) {
    if (pattern.length > PATTERN_MAX) throw new Error(`a pattern has at most ${PATTERN_MAX} characters`);
    known = RE2JS.compile(pattern);
    if (known.programSize() > PROGRAM_MAX) throw new Error("the pattern repeats too much");
    compiled.set(pattern, known);
  }
  return known;
}

/**
 * Texts that every match of `pattern` contains, as far as that is plain to see: they lead from a value to the few
 * patterns that can match it. Empty when nothing is certain.
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
    // A character that may be missing, or come again, ends the run; what is in a group may be missing as a whole.
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
