import { assertEquals } from "@std/assert";
import { joinedTexts, someText, textsOf } from "../../../lib/credential/scrub.ts";

const VALUES: unknown[] = [
  "a",
  { a: "b", c: ["d", 1, null, { e: "f" }], g: {}, h: "", i: [], j: true, k: "l" },
  [["a"], [], [{ b: [{ c: "d" }] }], "e"],
  { __proto__: null, toString: "x", "": "y" },
];

Deno.test("the texts of a value are joined in order, whatever its shape", () => {
  const words = (text: string) => text.split("\n").filter(Boolean);
  for (const value of VALUES) {
    assertEquals(words(joinedTexts(value)), words(textsOf(value).join("\n")));
  }
});

Deno.test("each text of a value is tested in order, until one passes", () => {
  for (const value of VALUES) {
    const texts = textsOf(value);
    for (let last = 0; last <= texts.length; last++) {
      const tested: string[] = [];
      const passes = someText(value, (text) => tested.push(text) > last);
      assertEquals([tested, passes], [texts.slice(0, last + 1), last < texts.length]);
    }
  }
});
