import { assertEquals, assertStrictEquals } from "@std/assert";
import { joinBytes } from "../../../lib/base/bytes/mod.ts";

Deno.test("bytes are joined in their order, and a single part is not copied", () => {
  const [one, two, none] = [[1, 2], [3], []].map((bytes) => Uint8Array.from(bytes));
  assertEquals(joinBytes([one, none, two]), Uint8Array.of(1, 2, 3));
  assertEquals(joinBytes([]), none);
  assertStrictEquals(joinBytes([one]), one);
  const twice = joinBytes([one, one.subarray(1)]);
  one.fill(9);
  assertEquals(twice, Uint8Array.of(1, 2, 2));
});
