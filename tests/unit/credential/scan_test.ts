/** Scans and streams at their edges, and entropy at its limits. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import { Finder } from "../../../lib/credential/finder.ts";
import { holdsToken, looksSecret, refOf } from "../../../lib/credential/mod.ts";
import { StreamReplacer } from "../../../lib/credential/body.ts";
import { scrubTexts } from "../../../lib/credential/scrub.ts";

const SECRET = "abcdefghijkl";
const REF = refOf("mcp", SECRET);
const bytes = (text: string) => new TextEncoder().encode(text);
const text = (each: Uint8Array) => new TextDecoder().decode(each);

Deno.test("a finder says what it found, where, and what may begin at the end", () => {
  const finder = new Finder([[REF, SECRET], [refOf("mcp", "ijklmnopqrstu"), "ijklmnopqrstu"]]);
  const found = (part: string, from?: number) =>
    finder.scan(part, from).matches.map(({ start, end, kind, ref }) => [start, end, kind, ref === REF]);
  assertEquals(found(`x${SECRET}y`), [[1, 13, "secret", true]]);
  assertEquals(found(`${SECRET}${SECRET}`), [[0, 12, "secret", true], [12, 24, "secret", true]]);
  assertEquals(found(`${SECRET}mnopqrstu`), [[0, 21, "secret", true]], "overlaps become one");
  assertEquals(found(`x${SECRET}`, 2), []);
  assertEquals(found(`a ${REF} b`), [[2, 84, "ref", true]]);
  assertEquals([finder.knowsSecrets, finder.holds(`x${SECRET}`), finder.holds(REF), finder.holds("x")], [
    true,
    true,
    true,
    false,
  ]);
  const partial = (part: string) => finder.scan(part).partial;
  assertEquals(["xx", "xxabc", "xx cred", "xx ghp_0", "xxghp_0"].map(partial), [2, 2, 3, 3, 7]);
  assertEquals(finder.least, 12);
  const none = new Finder([]);
  assertEquals([none.knowsSecrets, none.holds(SECRET), none.holds(REF)], [false, false, true]);
  const plain = new Finder([[REF, SECRET]], { shapes: false });
  assertEquals([plain.holds(SECRET), plain.holds(REF), plain.find(REF)], [true, false, []]);
});

Deno.test("a stream may end, and another follow, in which the middle of a word is none any more", () => {
  const finder = new Finder([[REF, SECRET]]);
  const token = `ghp_${"0z".repeat(15)}`;
  const replacer = new StreamReplacer(() => finder, ({ kind }) => `<${kind}>`);
  const push = (part: string) => text(replacer.push(bytes(part)));
  const end = () => text(replacer.end());
  // No shape of a key begins with a q.
  assertEquals([push(`q${token} `), push("q"), push(`${token} `), end()], [
    `q${token} `,
    "q",
    `${token} `,
    "",
  ]);
  assertEquals([push("q"), end(), push(`${token} `), end()], ["q", "", "<token> ", ""]);
  assertEquals([push("ab"), push("cdefgh"), push("ijkl"), end()], ["", "", "<secret>", ""]);
  assertEquals([push("abcdef"), end(), push("ghijkl"), end()], ["", "abcdef", "ghijkl", ""]);
  const empty = replacer.push(new Uint8Array());
  assertEquals(empty.length, 0);
  // Without a finder everything passes as it is.
  const open = new StreamReplacer(() => undefined, () => "");
  const chunk = bytes(SECRET);
  assertStrictEquals(open.push(chunk), chunk);
  assertEquals(open.end().length, 0);
});

Deno.test("a match that reaches over several texts is replaced in the first of them", () => {
  const match = (start: number, end: number, ref?: string) => ({
    start,
    end,
    kind: "secret" as const,
    text: "",
    ref,
  });
  const texts = ["abc", "def", "", "ghi"];
  assertEquals(scrubTexts(texts, []), texts);
  assertEquals(scrubTexts(texts, [match(1, 2, "R")]), ["aRc", "def", "", "ghi"]);
  assertEquals(scrubTexts(texts, [match(2, 5, "R")]), ["abR", "ef", "", "ghi"]);
  assertEquals(scrubTexts(texts, [match(0, 1, "R"), match(2, 11, "S")]), ["RbS", "", "", "i"]);
  assertEquals(scrubTexts(["abc"], [match(1, 2)]), ["a[redacted]c"]);
});

Deno.test("a word looks secret from so many characters, so many in a row, and so much entropy on", () => {
  const run = "a1b2c3d4e5f6g7h8";
  const cases: [word: string, is: boolean][] = [
    [`${run}-xyz`, true],
    [`${run}-xy`, false],
    [`${run.slice(1)}-wxyz`, false],
    ["a1a1a1a1a1a1a1a1a1a1a1a1", false],
    ["aaaaaaaaaaaaaaaaaaaaaaaa", false],
    ["abcdefghijklmnopqrstuvwx", false],
    ["123456789012345678901234", false],
    ["aB3-dE6-gH9-jK2-mN5-pQ8", true],
    ["aB3-aB3-aB3-aB3-aB3-aB3", false],
    ["ab3-de6-gh9-jk2-mn5-pq8", false],
    [`--x=${run}-xyz`, true],
    [`a_name_that_is_long_enough=${"x".repeat(3)}`, false],
    [`./${run}-xyz/file`, false],
    [`./${run}i9j0k/file`, true],
  ];
  for (const [word, is] of cases) assertEquals(looksSecret(word), is, word);
  assertEquals([holdsToken(`x ghp_${"0a".repeat(12)}`), holdsToken(run)], [true, false]);
});
