import { assertEquals, assertThrows } from "@std/assert";
import { parseJson, ReservedKeyError } from "../../../lib/base/json/mod.ts";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";

Deno.test("a key __proto__ is refused in JSON, however it is written and wherever it is", () => {
  for (
    const text of [
      '{"__proto__": 1}',
      '{"a": [{"__proto__": {}}]}',
      '{"\\u005f_proto__": 1}',
      '{"__\\u0070roto__": 1}',
    ]
  ) {
    assertThrows(() => parseJson(text), ReservedKeyError, "__proto__");
  }
  assertEquals(parseJson('{"a": "__proto__", "constructor": "\\u0041"}'), {
    a: "__proto__",
    constructor: "A",
  });
});

Deno.test("a key __proto__ is refused in rule files: a rule of that name would vanish", () => {
  const rule = 'action = "block"\nmatch = "true"\n';
  for (const name of ["__proto__", '"__proto__"', '"\\u005f_proto__"', "'__proto__'"]) {
    const text = `[profiles.rules.${name}]\n${rule}`;
    assertThrows(() => parseRules(text, "a.toml"), SbxError, "the key __proto__ is reserved");
  }
  const inline = "[profiles.rules]\na = { __proto__ = 2 }";
  assertThrows(() => parseRules(inline, "a.toml"), SbxError, "a.toml:2: ");
});
