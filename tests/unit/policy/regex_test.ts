import { assert } from "@std/assert";
import { compileRegex, REGEXES_MAX } from "../../../lib/policy/engine/regex.ts";

Deno.test("compiled patterns are kept up to a number, the ones used last", () => {
  const first = compileRegex("^first$");
  for (let at = 1; at < REGEXES_MAX; at++) compileRegex(`^${at}$`);
  const second = compileRegex("^1$");
  assert(compileRegex("^first$") === first, "it is used again");
  for (let at = 0; at < REGEXES_MAX - 2; at++) compileRegex(`^more${at}$`);
  assert(compileRegex("^first$") === first, "all the others go before it");
  for (let at = 0; at < REGEXES_MAX; at++) compileRegex(`^yet${at}$`);
  assert(compileRegex("^first$") !== first, "it was dropped");
  assert(compileRegex("^1$") !== second);
  assert(compileRegex("^first$").test("first"));
});
