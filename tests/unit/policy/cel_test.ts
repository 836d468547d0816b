/** CEL by construct, with results from the language definition, and the extensions of rules. */
import { assertEquals, assertThrows } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { environment, resetCost } from "../../../lib/policy/engine/cel.ts";
import { compileMatch, type Program } from "../../../lib/policy/engine/compile.ts";
import { FlatEvent } from "../../../lib/policy/engine/flat.ts";

/** Event with most fields of http and mcp, and some absent. */
const EVENT = {
  schema_version: 1,
  common: {
    event_type: "http.request",
    timestamp_unix_ms: 1_700_000_000_000,
    sequence: 7,
    labels: { team: "red" },
  },
  http: {
    request: {
      method: "POST",
      host: "api.github.com",
      port: 443,
      path: "/repos/Ünï/x",
      bytes: 0,
      headers: { accept: ["a", "b"], "x-id": ["42"] },
      body: { state: "text", text: "hello 😀", truncated: true },
    },
  },
  mcp: {
    request: {
      arguments: { n: 5, f: 1.5, s: "text", b: true, z: null, list: [1, 2, 3], map: { k: "v" }, empty: [] },
    },
  },
} as unknown as Event;

function evaluate(match: string): unknown {
  const program = environment.parse(compileMatch(match).text) as Program;
  resetCost();
  return program(new FlatEvent(EVENT));
}

const RESULTS: [expression: string, expected: boolean][] = [
  // literals
  ["true", true],
  ["!false", true],
  ["0x1F == 31", true],
  ["-5 < 0", true],
  ["-9223372036854775808 < 0", true],
  ["9223372036854775807 > 0", true],
  ["1.5e3 == 1500.0", true],
  ["7u == 7u", true],
  [`"a" == 'a'`, true],
  [`"""a\nb""" == "a\\nb"`, true],
  [`r"\\d" == "\\\\d"`, true],
  [`"\\u00e9" == "é"`, true],
  [`"\\x41\\102" == "AB"`, true],
  [`"\\"quoted\\"" == '"quoted"'`, true],
  [`b"abc" == b'abc'`, true],
  ["null == null", true],
  // arithmetic
  ["1 + 2 * 3 == 7", true],
  ["(1 + 2) * 3 == 9", true],
  ["7 / 2 == 3", true],
  ["-7 / 2 == -3", true],
  ["7 % 3 == 1", true],
  ["-7 % 3 == -1", true],
  ["5 % -3 == 2", true],
  ["1.0 / 4.0 == 0.25", true],
  ["1.0 / 0.0 > 1.0e300", true],
  ["-(3 - 5) == 2", true],
  [`"a" + "b" == "ab"`, true],
  ["[1] + [2] == [1, 2]", true],
  // comparison
  ["1 < 2", true],
  ["2 <= 2", true],
  ["3 > 2", true],
  ["2 >= 3", false],
  ["1 != 2", true],
  [`"a" < "b"`, true],
  [`"Z" < "a"`, true],
  ["false < true", true],
  ["1 < 1.5", true],
  ["2u > 1", true],
  [`timestamp("2024-01-02T00:00:00Z") > timestamp("2024-01-01T00:00:00Z")`, true],
  [`duration("1h") == duration("60m")`, true],
  ["[1, 2] == [1, 2]", true],
  ["[1, 2] == [2, 1]", false],
  [`{"a": 1} == {"a": 1}`, true],
  ["dyn(1) == dyn(1.0)", true],
  [`dyn(1) == dyn("1")`, false],
  // logic, and errors absorbed by it
  ["true && true", true],
  ["true && false", false],
  ["false || true", true],
  ["true || 1 / 0 > 0", true],
  ["1 / 0 > 0 || true", true],
  ["false && 1 / 0 > 0", false],
  ["1 / 0 > 0 && false", false],
  ["true ? true : 1 / 0 > 0", true],
  ["1 < 2 ? 3 > 4 : true", false],
  // text
  [`"hello".contains("ell")`, true],
  [`"hello".startsWith("he")`, true],
  [`"hello".endsWith("lo")`, true],
  [`"hello".startsWith("")`, true],
  [`size("é😀") == 2`, true],
  [`"abc".size() == 3`, true],
  [`"hello".matches("l+")`, true],
  [`"hello".matches("^l+$")`, false],
  [`matches("hello", "^h.*o$")`, true],
  [`"HeLLo".lowerAscii() == "hello"`, true],
  [`"Äb".lowerAscii() == "Äb"`, true],
  [`"äb".upperAscii() == "äB"`, true],
  [`" a ".trim() == "a"`, true],
  [`"a,b".split(",") == ["a", "b"]`, true],
  [`["a", "b"].join("-") == "a-b"`, true],
  [`"hello".substring(1, 3) == "el"`, true],
  [`"hello".indexOf("l") == 2`, true],
  // conversion
  [`int("12") == 12`, true],
  ["int(1.9) == 1", true],
  ["int(-1.9) == -1", true],
  ["double(2) == 2.0", true],
  [`double("1.5") == 1.5`, true],
  [`string(42) == "42"`, true],
  [`string(true) == "true"`, true],
  [`bool("true")`, true],
  [`uint(3) == 3u`, true],
  [`string(b"abc") == "abc"`, true],
  [`type(1) == int`, true],
  [`type("a") == string`, true],
  [`timestamp("2024-05-06T07:08:09Z").getHours() == 7`, true],
  [`timestamp("2024-05-06T07:08:09Z").getFullYear() == 2024`, true],
  [`timestamp("2024-05-06T00:00:00Z").getMonth() == 4`, true],
  [`timestamp("2024-05-06T00:00:00Z") + duration("24h") == timestamp("2024-05-07T00:00:00Z")`, true],
  // lists and maps
  ["2 in [1, 2, 3]", true],
  ["4 in [1, 2, 3]", false],
  [`"a" in {"a": 1}`, true],
  ["[1, 2, 3][1] == 2", true],
  [`{"a": 1}["a"] == 1`, true],
  [`{"a": {"b": 2}}.a.b == 2`, true],
  ["size([1, 2]) == 2", true],
  [`size({"a": 1}) == 1`, true],
  ["[] == []", true],
  // macros
  ["[1, 2].all(x, x > 0)", true],
  ["[].all(x, x > 0)", true],
  ["[1, 2].exists(x, x == 2)", true],
  ["[].exists(x, x == 2)", false],
  ["[1, 2, 2].exists_one(x, x == 1)", true],
  ["[1, 2, 2].exists_one(x, x == 2)", false],
  ["[1, 2, 3].filter(x, x > 1) == [2, 3]", true],
  ["[1, 2].map(x, x * 2) == [2, 4]", true],
  ["[1, 2, 3].map(x, x > 1, x * 2) == [4, 6]", true],
  [`{"a": 1}.exists(k, k == "a")`, true],
  ["[[1], [2]].exists(x, x.exists(y, y == 2))", true],
  ["[0, 2].exists(x, 1 / x > 5 || x == 2)", true],
  ["cel.bind(x, 2, x * x == 4)", true],
  // fields
  [`http.request.host == "api.github.com"`, true],
  [`"api.github.com" == http.request.host`, true],
  ["http.request.port == 443", true],
  ["http.request.port > 442 && http.request.port < 444", true],
  ["http.request.bytes == 0", true],
  [`http.request.method in ["POST", "PUT"]`, true],
  ["http.request.body.truncated", true],
  ["!http.request.body.truncated", false],
  [`http.request.body.text.endsWith("😀")`, true],
  [`http.request.headers["accept"][1] == "b"`, true],
  [`http.request.headers.accept.exists(v, v == "b")`, true],
  [`"x-id" in http.request.headers`, true],
  [`http.request.headers.exists(name, name.startsWith("x-"))`, true],
  [`int(http.request.headers["x-id"][0]) == 42`, true],
  [`common.labels.team == "red"`, true],
  ["timestamp(common.timestamp_unix_ms / 1000).getFullYear() == 2023", true],
  // dynamic values
  ["mcp.request.arguments.n == 5", true],
  ["mcp.request.arguments.n > 4", true],
  ["mcp.request.arguments.f < 2", true],
  [`mcp.request.arguments.n == "5"`, false],
  [`mcp.request.arguments.n != "5"`, true],
  [`mcp.request.arguments.s.startsWith("te")`, true],
  ["mcp.request.arguments.b", true],
  ["mcp.request.arguments.z == null", true],
  ["2 in mcp.request.arguments.list", true],
  ["mcp.request.arguments.list.exists(x, x == 3)", true],
  [`mcp.request.arguments.map.k == "v"`, true],
  // absent fields
  [`http.request.query == ""`, false],
  [`http.request.query != ""`, false],
  [`!(http.request.query == "")`, true],
  [`http.request.query.startsWith("")`, false],
  [`http.request.query in ["", "a"]`, false],
  [`dns.request.qname == "x" || http.request.port == 443`, true],
  [`http.request.port == 443 && dns.request.qname == "x"`, false],
  [`(dns.request.qname == "x") == false`, true],
  ["has(http.request.host)", true],
  ["has(http.request.query)", false],
  ["has(http.request)", true],
  ["has(dns.request)", false],
  ["has(http.request.headers.accept)", true],
  ["has(http.request.headers.missing)", false],
  ["!has(dns.request.qname)", true],
  [`http.request.headers["missing"][0] == "x"`, false],
  [`http.request.headers["accept"][9] == "x"`, false],
  [`http.request.headers["missing"].exists(v, true)`, false],
  [`http.request.headers["missing"].all(v, v == "x")`, false],
  ["mcp.request.arguments.missing == 1", false],
  ["mcp.request.arguments.missing.deeper == 1", false],
  [`dns.response.answers.exists(a, a == "x")`, false],
  ["size(http.request.query) > 0", false],
  [`[1, 2].exists(x, x == 2 && http.request.query == "")`, false],
  [`(has(http.request.query) ? http.request.query : "none") == "none"`, true],
  // custom functions
  [`in_domain(http.request.host, "github.com")`, true],
  [`in_domain(http.request.host, "hub.com")`, false],
  [`in_domain("github.com", "github.com")`, true],
  [`in_cidr("10.1.2.3", "10.0.0.0/8")`, true],
  [`in_cidr("11.1.2.3", "10.0.0.0/8")`, false],
  [`in_cidr("fe80::1", "fe80::/10")`, true],
  [`in_cidr(http.request.host, "10.0.0.0/8")`, false],
  [`is_private_host("127.1")`, true],
  [`is_private_host(http.request.host)`, false],
];

for (const [expression, expected] of RESULTS) {
  Deno.test(`cel: ${expression} is ${expected}`, () => assertEquals(evaluate(expression), expected));
}

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
  ["http.request.hots == 1", "unknown field http.request.hots; did you mean http.request.host?"],
  ["http.host == 'x'", "unknown field http.host; did you mean http.request.host?"],
  ["common.event_typ == 'x'", "unknown field common.event_typ; did you mean common.event_type?"],
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
  assertThrows(() => compileMatch("!".repeat(5000) + "true"));
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
