import { assertEquals } from "@std/assert";
import { memoize } from "../../../lib/base/memo/mod.ts";

function counted() {
  let count = 0;
  const length = memoize((text) => {
    count++;
    return text === "" ? undefined : text.length;
  });
  return { length, count: () => count };
}

Deno.test("a result is computed once, also one that is undefined", () => {
  const { length, count } = counted();
  assertEquals([length("a"), length("a"), length(""), length("")], [1, 1, undefined, undefined]);
  assertEquals(count(), 2);
});

Deno.test("long texts are not kept, and of 1,024 others the oldest goes", () => {
  const { length, count } = counted();
  const long = "x".repeat(257);
  assertEquals([length(long), length(long), count()], [257, 257, 2]);
  for (let at = 0; at < 1025; at++) length(`text ${at}`);
  assertEquals(count(), 2 + 1025);
  length("text 1");
  assertEquals(count(), 2 + 1025);
  length("text 0");
  assertEquals(count(), 2 + 1026);
});
