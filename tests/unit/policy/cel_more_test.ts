/** More CEL by construct, with results from the language definition: number limits, time, types, nesting. */
import { assertEquals, assertThrows } from "@std/assert";
import type { Event } from "../../../lib/event/mod.ts";
import { evaluate } from "../../helper/cel.ts";

const EVENT = { schema_version: 1, common: { event_type: "http.request" } } as unknown as Event;

const RESULTS: [expression: string, expected: boolean][] = [
  // text and bytes
  [`"\\U0001F600" == "😀"`, true],
  [`"😀".size() == 1`, true],
  [`'''it's''' == "it's"`, true],
  [`R"\\n".size() == 2`, true],
  [`"" == ''`, true],
  [`"b" > "a" && "B" < "a"`, true],
  ["size(b'abc') == 3", true],
  [`b"a" + b"b" == b"ab"`, true],
  [`bytes("é").size() == 2`, true],
  [`"abc".substring(1) == "bc"`, true],
  [`"".matches("")`, true],
  [`"A".matches("(?i)a")`, true],
  [`"line\\nx".matches("(?m)^x$")`, true],
  [`"line\\nx".matches("^x$")`, false],
  // numbers
  ["2 - 1 - 1 == 0", true],
  ["8 / 4 / 2 == 1", true],
  ["2 * 3 % 4 == 2", true],
  ["--1 == 1", true],
  ["!!true", true],
  ["1u + 2u == 3u", true],
  ["7u / 2u == 3u", true],
  ["0.0 == -0.0", true],
  ["0.1 + 0.2 == 0.3", false],
  ["0.0 / 0.0 == 0.0 / 0.0", false],
  ["0.0 / 0.0 != 1.0", true],
  ["-1.0 / 0.0 < -1.0e300", true],
  [`1.0 < double("Infinity")`, true],
  [`double("NaN") == double("NaN")`, false],
  [`double("1e3") == 1000.0`, true],
  [`int("-5") == -5`, true],
  [`string(1.5) == "1.5"`, true],
  [`bool("false")`, false],
  // lists and maps
  ["[1, 2] + [] == [1, 2]", true],
  ["[[1, 2], [3]][0][1] == 2", true],
  [`{1: "a"}[1] == "a"`, true],
  ["{true: 1}[true] == 1", true],
  [`{"a": [1, {"b": 2}]}.a[1].b == 2`, true],
  [`{"a": 1, "b": 2} == {"b": 2, "a": 1}`, true],
  [`"x" in {"a": 1}`, false],
  ["[null] == [null]", true],
  ["null == dyn(1)", false],
  ["dyn([1]) == dyn([1.0])", true],
  // macros
  ["[1, 2, 3].all(x, x < 3)", false],
  ["[1, 0].exists(x, 1 / x > 0)", true],
  ["[0, 1].exists(x, 1 / x > 0)", true],
  ["[0, 1].all(x, 1 / x > 5)", false],
  [`{"a": 1, "b": 2}.all(k, size(k) == 1)`, true],
  [`{"a": 1}.map(k, k) == ["a"]`, true],
  ["[].exists_one(x, true)", false],
  ["[3, 1].filter(x, x in [1]) == [1]", true],
  ["[1].exists(x, [x].exists(x, x == 1))", true],
  ["[1, 2].exists(x, [2, 3].exists(y, x == y))", true],
  // conditions
  ["false ? 1 / 0 > 0 : true", true],
  ["(true ? 1 : 2) == 1", true],
  ["true ? false : true ? true : true", false],
  ["1 < 2 == true", true],
  ["true || false && false", true],
  // time
  [`duration("90s") > duration("1m")`, true],
  [`duration("1h30m").getMinutes() == 90`, true],
  [`duration("-1.5h") < duration("0s")`, true],
  [`timestamp("2024-02-29T12:00:00Z").getDayOfMonth() == 28`, true],
  [`timestamp("2024-02-29T12:00:00Z").getDate() == 29`, true],
  [`timestamp("2024-02-29T12:00:00Z").getDayOfWeek() == 4`, true],
  [`timestamp("2024-02-29T23:00:00Z").getDate("+02:00") == 1`, true],
  [`timestamp("2024-01-01T00:00:00+01:00") == timestamp("2023-12-31T23:00:00Z")`, true],
  [`timestamp("2024-01-02T00:00:00Z") - timestamp("2024-01-01T00:00:00Z") == duration("24h")`, true],
  // types
  ["type(1.0) == double", true],
  ["type(1u) == uint", true],
  [`type(b"") == bytes`, true],
  ["type(true) == bool", true],
  ["type([]) == list", true],
  ["type({}) == map", true],
  ["type(null) == null_type", true],
  ["type(1) == type(1.0)", false],
];

for (const [expression, expected] of RESULTS) {
  Deno.test(`cel: ${expression} is ${expected}`, () => assertEquals(evaluate(expression, EVENT), expected));
}

const ERRORS = [
  "9223372036854775807 * 2 > 0",
  "0u - 1u == 0u",
  "18446744073709551615u + 1u > 0u",
  "uint(-1) == 0u",
  "7u / 0u == 0u",
  "[0, 1].all(x, 1 / x > 0)",
  "[0].exists(x, 1 / x > 0)",
  `[1, 2].exists_one(x, 1 / (x - 1) > 0)`,
  `int("9223372036854775808") > 0`,
  `duration("soon") > duration("0s")`,
];
for (const expression of ERRORS) {
  Deno.test(`cel: ${expression} is an error`, () => {
    assertThrows(() => evaluate(expression, EVENT));
  });
}
