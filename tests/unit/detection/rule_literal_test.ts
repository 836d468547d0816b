/**
 * Literals that the index looks for hide no match of a regular expression,
 * whatever letters and escapes it has.
 */
import { assert, assertEquals } from "@std/assert";
import type { Matchable } from "../../../lib/detection/mod.ts";
import { compileRules } from "../../../lib/detection/rule/compile.ts";
import { RuleEngine } from "../../../lib/detection/rule/run/engine.ts";
import { compileRegex } from "../../../lib/detection/rule/run/regex.ts";
import { eventCommon, httpRequest } from "../../helper/event.ts";
import { Random } from "../../helper/random.ts";

const PATTERNS = [
  "abc",
  "s",
  "K",
  "😀",
  "é",
  "ſ",
  "\\101",
  "\\x41",
  "\\x{41}",
  "\\Qa.c\\E",
  "[a|]",
  "a{2}",
  "\\.",
];
const JOINTS = ["", "?", "*", "+", "{0,2}", "|", "(", ")", "(?i)", "(?:", "\\b", "{", "}", "??"];
const TEXTS = [
  "abc",
  "ABC",
  "s",
  "ſ",
  "K",
  "k",
  "\u212a",
  "😀",
  "é",
  "É",
  "A",
  "a.c",
  "|",
  "aa",
  ".",
  "bcd",
  "{",
  "",
];

const random = new Random(7);
const join = (...lists: string[][]) =>
  Array.from({ length: 1 + random.below(4) }, () => lists.map((list) => random.pick(list)).join("")).join("");

function found(re: string, flags: string, texts: readonly string[]): boolean[] | undefined {
  const modifiers = ["re", ...flags].join("|");
  const text = JSON.stringify({
    title: "Rule",
    logsource: { category: "proxy" },
    detection: { sel: { [`c-uri-query|${modifiers}`]: re }, condition: "sel" },
  });
  const { plan } = compileRules([{ path: "r.yml", text }], { pack_id: "test" });
  if (plan.rules.length === 0) return undefined;
  const engine = new RuleEngine([plan]);
  return texts.map((query) =>
    engine.match(
      {
        common: eventCommon("http.request"),
        http: { request: httpRequest({ query }) },
      } as unknown as Matchable,
    ).length > 0
  );
}

Deno.test("a regular expression finds in the index what it finds alone", () => {
  assertEquals(found("abc😀?", "", ["xabcx"]), [true]);
  assertEquals(found("curls", "i", ["curlſ"]), [true]);
  assertEquals(found("\\101bcd", "", ["Abcd"]), [true]);
  let [patterns, matches] = [0, 0];
  for (let at = 0; at < 4000; at++) {
    const re = join(PATTERNS, JOINTS);
    const flags = random.pick(["", "i"]);
    const texts = Array.from({ length: 10 }, () => join(TEXTS));
    const actual = found(re, flags, texts);
    if (!actual) continue;
    patterns++;
    const regex = compileRegex(re, flags);
    const expected = texts.map((text) => regex.test(text));
    matches += expected.filter(Boolean).length;
    assertEquals(actual, expected, JSON.stringify({ re, flags, texts }));
  }
  assert(patterns > 1000 && matches > 2000, `${patterns} patterns, ${matches} matches`);
});
