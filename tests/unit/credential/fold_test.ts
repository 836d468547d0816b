/** The normal form of text in which secrets are searched. */
import { assertEquals } from "@std/assert";
import { fold, lower } from "../../../lib/credential/fold.ts";
import { Matcher } from "../../../lib/credential/finder.ts";

/** The folded text, with `?` for characters that are in no secret. */
function folded(text: string, from = 0): string {
  const { codes, length } = fold(text, from);
  return Array.from(codes.subarray(0, length), (code) => code < 3 ? "?" : String.fromCharCode(code)).join("");
}

Deno.test("text is folded to one spelling", () => {
  const cases: [text: string, folded: string][] = [
    ["", ""],
    ["AbZ09", "abz09"],
    ["a b\tc\r\nd\0e\u00a0f", "abcde?f"],
    ["a.b:c=d", "abcd"],
    ["a-b_c+d/e", "a+b/c+d/e"],
    ["aé☃\x7fb", "a???b"],
    // Percent-encoding, also of itself.
    ["a%42c", "abc"],
    ["a%2Dc", "a+c"],
    ["a%2542c", "abc"],
    ["a%252542c", "abc"],
    ["a%4", "a%4"],
    ["a%4xc", "a%4xc"],
    ["a%%42", "a%b"],
    ["a%20c%3Dd", "acd"],
    ["a%e9", "a?"],
    // Escapes of JSON and of programs.
    ["a\\u0042c", "abc"],
    ["a\\u004", "a\\u004"],
    ["a\\u2603c", "a?c"],
    ["a\\x42c", "abc"],
    ["a\\/c", "a/c"],
    ["a\\nb\\rc\\td\\0e", "abcde"],
    ["a\\bc", "a\\bc"],
    ["a\\9c", "a\\9c"],
    ["a\\zc\\qd\\{", "a\\zc\\qd{"],
    ["a&#00000066;c", "a&#00000066;c"],
    ["a\\\\u0042c", "abc"],
    ["a\\\nb", "ab"],
    ["a\\\0b", "a/b".replace("/", "\\")],
    ["a\\-b", "a+b"],
    // References of HTML, decimal, hexadecimal and by name.
    ["a&#66;c", "abc"],
    ["a&#0000066;c", "abc"],
    ["a&#x42;c", "abc"],
    ["a&#X42;c", "abc"],
    ["a&#x0000042;c", "abc"],
    ["a&#00000000066;", "a&#00000000066;"],
    ["a&#6a;", "a&#6a;"],
    ["a&#xg;", "a&#xg;"],
    ["a&#9731;c", "a?c"],
    ["a&amp;#66;c", "abc"],
    ["a&lowbar;c&sol;d", "a/c/d"],
    ["a&period;c&NewLine;d&equals;", "acd"],
    ["a&amb;c", "a&amb;c"],
    ["a&am;c", "a&am;c"],
    ["a&toString;", "a&tostring;"],
  ];
  for (const [text, expected] of cases) {
    assertEquals(folded(text), expected, JSON.stringify(text));
    assertEquals(folded(`xy${text}`, 2), expected, `${JSON.stringify(text)} from an offset`);
  }
  assertEquals(folded("a".repeat(10_000)), "a".repeat(10_000));
});

Deno.test("each folded character has its place in the text", () => {
  const { length, starts, ends } = fold("ab c%42\\u0043d", 1);
  const places = Array.from({ length }, (_, at) => [starts[at], ends[at]]);
  assertEquals(places, [[1, 2], [3, 4], [4, 7], [7, 13], [13, 14]]);
});

Deno.test("characters before an escape that may go on do not depend on what follows", () => {
  const stable = (text: string) => fold(text).stable;
  assertEquals(["ab", "ab%", "ab%4", "ab%42", "ab%4x"].map(stable), [2, 2, 2, 3, 5]);
  assertEquals(["a\\", "a\\u00", "a\\u0042", "a\\q"].map(stable), [1, 1, 2, 3]);
  assertEquals(["a&", "a&am", "a&amp;", "a&zz", "a&#6", "a&#66;"].map(stable), [1, 1, 1, 4, 1, 2]);
});

Deno.test("lower case has one code for each character", () => {
  const codes = (text: string, from = 0) => [...lower(text, from).slice(0, text.length - from)];
  assertEquals(codes("aB-_ \n"), [97, 98, 45, 95, 32, 10]);
  assertEquals(codes("xyAé☃\x7f", 2), [97, 2, 2, 127]);
});

const codesOf = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

Deno.test("the longest pattern that ends at each character is reported, and a beginning at the end", () => {
  const matcher = new Matcher(["abcd", "bc", "bc", "c", "abce", "xab"].map(codesOf));
  const scan = (text: string, stable = text.length) => {
    const found: string[] = [];
    const depth = matcher.scan(
      codesOf(text),
      text.length,
      stable,
      (pattern, start, end) => found.push(`${pattern} ${text.slice(start, end)}`),
    );
    return [found, depth];
  };
  assertEquals(scan(""), [[], 0]);
  assertEquals(scan("zabcd"), [["1 bc", "0 abcd"], 0]);
  assertEquals(scan("abce"), [["1 bc", "4 abce"], 0]);
  assertEquals(scan("abc"), [["1 bc"], 3]);
  assertEquals(scan("xabc"), [["5 xab", "1 bc"], 3]);
  assertEquals(scan("xab"), [["5 xab"], 2]);
  assertEquals(scan("xa"), [[], 2]);
  assertEquals(scan("ccx"), [["3 c", "3 c"], 1]);
  assertEquals(scan("xaz", 2), [[], 2]);
  assertEquals(scan("xabcd", 2), [["5 xab", "1 bc", "0 abcd"], 2]);
});
