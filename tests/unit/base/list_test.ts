import { assertEquals } from "@std/assert";
import { allOf } from "../../../lib/base/list/mod.ts";

Deno.test("a list of a union's members has each, in its own order, or does not compile", () => {
  assertEquals(allOf<"a" | "b">()("b", "a"), ["b", "a"]);
  // @ts-expect-error "b" is missing
  allOf<"a" | "b">()("a");
  // @ts-expect-error "c" is not a member
  allOf<"a" | "b">()("a", "b", "c");
});
