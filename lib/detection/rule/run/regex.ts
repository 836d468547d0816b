/** RE2 regular expressions of rules: linear time, whatever the rule and the guest's text. */
import { RE2JS } from "re2js";
import { REGEX_MAX, REGEX_PROGRAM_MAX } from "../plan.ts";

const FLAGS: Record<string, number> = {
  i: RE2JS.CASE_INSENSITIVE,
  m: RE2JS.MULTILINE,
  s: RE2JS.DOTALL,
};

/** @throws {Error} for a pattern that is invalid, too large, or needs backtracking */
export function compileRegex(pattern: string, flags: string): RE2JS {
  if (pattern.length > REGEX_MAX) throw new Error(`the pattern is longer than ${REGEX_MAX} characters`);
  const lookAround = /\(\?(?:[=!]|<[=!])/.exec(pattern)?.[0];
  if (lookAround) {
    throw new Error(
      `${lookAround} looks around, which regular expressions of Sigma cannot: use a second selection`,
    );
  }
  const regex = RE2JS.compile(pattern, [...flags].reduce((sum, flag) => sum | FLAGS[flag], 0));
  if (regex.programSize() > REGEX_PROGRAM_MAX) throw new Error("the pattern is too large when compiled");
  return regex;
}
