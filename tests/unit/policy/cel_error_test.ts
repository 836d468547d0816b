/** CEL that fails: at evaluation, at compilation, and at the limits of size, nesting and cost. */
import { assertEquals, assertThrows } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { parseRules } from "../../../lib/policy/author/mod.ts";
import { compilePolicy } from "../../../lib/policy/mod.ts";
import { compileMatch } from "../../../lib/policy/engine/compile.ts";
import { evaluate } from "../../helper/cel.ts";

const ERRORS: [expression: string, code: RegExp][] = [
  ["1 / 0 > 0", /division by zero/],
  ["1 % 0 > 0", /modulo by zero/],
  ["9223372036854775807 + 1 > 0", /overflow/],
  ["-9223372036854775808 - 1 < 0", /overflow/],
  ["1 / 0 > 0 || false", /division by zero/],
  ["true && 1 / 0 > 0", /division by zero/],
  ["[1, 0].all(x, 1 / x > 0)", /division by zero/],
  [`int("x") == 1`, /convert/],
  [`bool("x")`, /conversion/],
  [`timestamp("x") == timestamp("x")`, /ISO 8601/],
  [`mcp.request.arguments.s > 5`, /no such overload/],
];
for (const [expression, message] of ERRORS) {
  Deno.test(`cel: ${expression} fails`, () => {
    assertThrows(() => evaluate(expression), Error, undefined, undefined);
    try {
      evaluate(expression);
    } catch (error) {
      assertEquals(message.test((error as Error).message), true, (error as Error).message);
    }
  });
}

const REJECTED: [expression: string, message: string][] = [
  ["http.request.hots == 1", 'unknown field http.request.hots; did you mean "http.request.host"?'],
  ["http.host == 'x'", 'unknown field http.host; did you mean "http.request.host"?'],
  ["common.event_typ == 'x'", 'unknown field common.event_typ; did you mean "common.event_type"?'],
  ["nothing == 1", "unknown name nothing"],
  ["http.request == 1", "http.request is an object; compare one of its fields, such as http.request.method"],
  ["http.request.port == '443'", "no such overload: int == string"],
  ["http.request.port == 443.0", "no such overload: int == double"],
  ["http.request.host + 1 == 'x'", "no such overload: string + int"],
  ["http.request.host", "the expression has type string; a rule needs bool"],
  ["1 + 1", "the expression has type int; a rule needs bool"],
  ["http.request.host.shout()", "found no matching overload for 'string.shout()'"],
  ["__is(true)", "unknown function __is"],
  ["http.request.host.matches('(')", "invalid pattern: error parsing regexp: missing closing ): `(`"],
  ["http.request.host.matches(http.request.path)", "matches() needs a literal pattern"],
  [
    "in_cidr(http.request.host, '10/99')",
    `in_cidr() needs a literal network, such as "10.0.0.0/8"`,
  ],
  ["9223372036854775808 > 0", "9223372036854775808 is out of range for int"],
  ["{'a': 1, 'a': 2} == {}", `duplicate map key "a"`],
  ["has(1)", "has() needs a field, such as has(http.request.host)"],
  ["true &&", "Unexpected token: EOF"],
  ["", "Unexpected token: EOF"],
];
for (const [expression, message] of REJECTED) {
  Deno.test(`cel: ${expression || "nothing"} is rejected`, () => {
    assertEquals((assertThrows(() => compileMatch(expression)) as Error).message, message);
  });
}

Deno.test("cel: an expression of a megabyte is rejected", () => {
  assertThrows(() => compileMatch(`true || "${"x".repeat(2 ** 20)}" == ""`), Error, "longer than");
});

Deno.test("cel: nesting is bounded", () => {
  assertThrows(() => compileMatch("(".repeat(5000) + "true" + ")".repeat(5000)));
  assertThrows(() => compileMatch("!".repeat(50_000) + "true"));
});

Deno.test("cel: signs are nested as deeply as anything else, and an error that has no place is on the first line", () => {
  const deep = (count: number) => {
    const match = `"""\ntrue &&\n${"!".repeat(count)}true"""`;
    return () =>
      compilePolicy(parseRules(`[profiles.rules.deep]\naction = "block"\nmatch = ${match}\n`, "f.toml"));
  };
  deep(100)();
  assertThrows(deep(101), SbxError, 'f.toml:5: profile rule "deep": the expression is nested too deeply');
  // Too deep for the parser, whatever its stack.
  assertThrows(deep(50_000), SbxError, 'f.toml:4: profile rule "deep": ');
});

const BOMBS = [
  "[1,2,3,4,5,6,7,8,9,10].all(a, [1,2,3,4,5,6,7,8,9,10].all(b, [1,2,3,4,5,6,7,8,9,10].all(c, [1,2,3,4,5,6,7,8,9,10].all(d, [1,2,3,4,5,6,7,8,9,10].all(e, [1,2,3,4,5,6,7,8,9,10].all(f, a + b + c + d + e + f > 0))))))",
  Array.from({ length: 40 }).reduce<string>(
    (inner, _, at) => `cel.bind(v${39 - at}, v${38 - at} + v${38 - at}, ${inner})`,
    "size(v39) > 0",
  )
    .replaceAll("v-1", "[1, 2]"),
];
for (const bomb of BOMBS) {
  Deno.test(`cel: ${bomb.slice(0, 40)}… exceeds its budget`, () => {
    assertThrows(() => evaluate(bomb), Error, "budget");
  });
}
