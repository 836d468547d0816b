/** Rules in the style of public ones, as a security team brings them: all of them compile, unchanged. */
import { assertEquals } from "@std/assert";
import { reportPortability } from "../../../lib/detection/compile/portability.ts";

Deno.test("23 rules in the public style are taken whole", async () => {
  const { language } = await reportPortability("fixtures/sigma", { mapping: {} });
  const { compiled, refused, never_matches, not_applicable } = language;
  assertEquals([compiled, refused, never_matches, not_applicable], [23, 0, 0, 0]);
});
