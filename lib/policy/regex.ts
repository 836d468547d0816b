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
 * The longest text that every match of `pattern` contains, when that is plain to see: it leads from a value to the
 * few patterns that can match it. `undefined` when nothing is certain.
 */
export function requiredLiteral(pattern: string): string | undefined {
  if (/\(\?[a-zA-Z]*[ix]/.test(pattern)) return undefined;
  let best = "";
  let run = "";
  let depth = 0;
  const end = () => {
    if (run.length > best.length) best = run;
    run = "";
  };
  for (let at = 0; at < pattern.length; at++) {
    let char = pattern[at];
    if (char === "|" && depth === 0) return undefined;
    let literal = !"^$.[]()*+?{}|".includes(char);
    if (char === "\\") {
      char = pattern[++at] ?? "";
      literal = /[^A-Za-z0-9]/.test(char);
      if (/[QpPx]/.test(char)) return best.length ? best : undefined;
    } else if (char === "[") {
      at = closingBracket(pattern, at);
      literal = false;
    } else if (char === "(") depth++;
    else if (char === ")") depth--;
    else if (char === "{") {
      at = pattern.indexOf("}", at);
      if (at < 0) return undefined;
    }
    if (depth > 0 || !literal) end();
    else if ("*?{".includes(pattern[at + 1] ?? "")) end();
    else run += char;
    if (literal && pattern[at + 1] === "+") end();
  }
  end();
  return best || undefined;
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
