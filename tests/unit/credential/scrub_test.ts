import { assertEquals } from "@std/assert";
import { joinedTexts, textsOf } from "../../../lib/credential/scrub.ts";

Deno.test("the texts of a value are joined in order, whatever its shape", () => {
  const values: unknown[] = [
    "a",
    { a: "b", c: ["d", 1, null, { e: "f" }], g: {}, h: "", i: [], j: true, k: "l" },
    [["a"], [], [{ b: [{ c: "d" }] }], "e"],
    { __proto__: null, toString: "x", "": "y" },
  ];
  const words = (text: string) => text.split("\n").filter(Boolean);
  for (const value of values) {
    assertEquals(words(joinedTexts(value)), words(textsOf(value).join("\n")));
  }
});
