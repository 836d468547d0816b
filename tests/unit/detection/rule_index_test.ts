/** The index finds the literals that a text has, and no other, however many share their characters. */
import { assertEquals } from "@std/assert";
import { GramIndex } from "../../../lib/detection/rule/run/gram.ts";
import { Random } from "../../helper/random.ts";

/** Two of them have a key in common: their lower bytes are the same. */
const ALPHABETS = ["ab", "abcdefgh/.-0123", "aš\u0161\u0261aé", "😀a"];

const random = new Random(42);
const textOf = (alphabet: string, length: number) =>
  Array.from({ length }, () => alphabet[random.below(alphabet.length)]).join("");

function expectFound(literals: readonly string[], text: string): void {
  const index = new GramIndex(literals.map((literal) => ({ text: literal, rules: [literal] })));
  const found = new Set<string>();
  index.find(text, (literal) => found.add(literal));
  assertEquals([...found].sort(), literals.filter((literal) => text.includes(literal)).sort(), text);
}

Deno.test("literals of any length and alphabet are found exactly where a text has them", () => {
  for (let round = 0; round < 400; round++) {
    const alphabet = random.pick(ALPHABETS);
    const literals = new Set(
      Array.from({ length: 1 + random.below(200) }, () => textOf(alphabet, 3 + random.below(9))),
    );
    expectFound([...literals], textOf(alphabet, random.below(60)));
  }
});

Deno.test("literals that have their rarest characters in common are distinguished", () => {
  const literals = Array.from({ length: 3000 }, (_, at) => `aaaa${at.toString(2).padStart(12, "a")}`);
  for (const at of [0, 1, 2047, 2999]) expectFound(literals, `x${literals[at]}y`);
  expectFound(literals, "aaaa".repeat(20));
});

Deno.test("an index without literals, and a text shorter than any, find nothing", () => {
  expectFound([], "aaaa");
  expectFound(["aaa", "bbbb"], "aa");
  expectFound(["aaa", "bbbb"], "");
});
