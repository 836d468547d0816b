/**
 * Match expressions before they run: their lowering, errors, fields and clauses
 * (docs/design/contracts/05-policy.md §5).
 */
import { assertEquals, assertThrows } from "@std/assert";
import { environment } from "../../../lib/policy/engine/cel.ts";
import { compileMatch, conjunctsOf, SourceText } from "../../../lib/policy/engine/compile.ts";
import {
  fieldOf,
  type FieldReference,
  fieldsBelow,
  firstRead,
  isAbsent,
  type Key,
  MatchError,
  strictFields,
} from "../../../lib/policy/engine/field.ts";
import { lower } from "../../../lib/policy/engine/lower.ts";

const parse = (match: string) => environment.parse(match).ast;
const NOTHING: ReadonlySet<string> = new Set();
const H = "http.request.host";
const HEADERS = "http.request.headers";

Deno.test("a lowered literal is the literal that CEL reads", () => {
  const cases: [literal: string, text: string][] = [
    ["1", "1"],
    ["-1", "-(1)"],
    ["9223372036854775807", "9223372036854775807"],
    ["-9223372036854775808", "(-9223372036854775808)"],
    ["1.0", "1.0"],
    ["1.5", "1.5"],
    ["1e30", "1e+30"],
    ["7u", "7u"],
    ["null", "null"],
    ["true", "true"],
    ['"a"', '"a"'],
    [`'a"\\\\b'`, '"a\\"\\\\b"'],
    ['"\\x01\\n\\x7f"', '"\\x01\\x0a\\x7f"'],
    ['b"a\\x01"', 'b"\\x61\\x01"'],
  ];
  for (const [literal, text] of cases) {
    assertEquals(lower(parse(`[${literal}] == []`)).text, `__is(([${text}] == []))`, literal);
  }
});

Deno.test("an expression that rules may not use is refused with its place", () => {
  const cases: [match: string, message: string, at?: number][] = [
    [
      `${H} == "x" && http.request.hots == "x"`,
      'unknown field http.request.hots; did you mean "http.request.host"?',
      28,
    ],
    ["http.request", "http.request is an object; compare one of its fields, such as http.request.method"],
    ["zzzzzzzzzz", "unknown name zzzzzzzzzz"],
    ["zzzzzzzzzz.a == 1", "unknown field zzzzzzzzzz.a"],
    ["http.host == 'a'", 'unknown field http.host; did you mean "http.request.host"?'],
    ["http.request.qqqqqqqq == 'a'", "unknown field http.request.qqqqqqqq"],
    [`${H}.matches(${H})`, "matches() needs a literal pattern", 26],
    [`${H}.matches("(")`, "invalid pattern: ", 26],
    [`matches(${H}, "(")`, "invalid pattern: "],
    [`in_cidr(${H}, "10.0.0.0/99")`, 'in_cidr() needs a literal network, such as "10.0.0.0/8"', 27],
    [`in_cidr(${H}, ${H})`, "in_cidr() needs a literal network"],
    ["has(has)", "has() needs a field, such as has(http.request.host)"],
    [`has(${HEADERS}["a"])`, "has() needs a field"],
    ["__is(true)", "unknown function __is"],
    [`${H}.__matches("a")`, "unknown function __matches"],
    ['["a"].exists(a__b, a__b == "a")', 'a variable name must not contain "__"', 13],
    ['{"a": 1, "a": 2} == {}', 'duplicate map key "a"'],
    ["9223372036854775808 == 1", "9223372036854775808 is out of range for int"],
    [H, "the expression has type string; a rule needs bool"],
    [`${H}.bind(x, 1, x == 1)`, "unknown name x"],
    ["cel.bind(x, 1)", "unknown name x"],
  ];
  for (const [match, message, at] of cases) {
    const error = assertThrows(() => compileMatch(match), MatchError);
    assertEquals(error.message.startsWith(message), true, `${match}: ${error.message}`);
    if (at !== undefined) assertEquals(error.at, at, match);
  }
  for (
    const match of [
      '["x"].exists(a, {a: 1, "a": 2} == {})',
      "cel.bind(x, 1, x == 1)",
      `["x"].exists(v, v == ${H}) && ["x"].exists(v, has(v.a))`,
    ]
  ) compileMatch(match);
});

Deno.test("a chain of names is a field with keys, unless its first name is a variable or no family", () => {
  const cases: [match: string, scope: string[], field: FieldReference | undefined][] = [
    [H, [], { path: H, rest: [] }],
    [`${HEADERS}.a.b`, [], { path: HEADERS, rest: ["a", "b"] }],
    ["common.labels.team", [], { path: "common.labels", rest: ["team"] }],
    [H, ["http"], undefined],
    ["int", [], undefined],
    ["f(x).a", [], undefined],
  ];
  for (const [match, scope, field] of cases) {
    assertEquals(fieldOf(parse(match), new Set(scope)), field, match);
  }
  assertThrows(() => fieldOf(parse(`${H}.length`), NOTHING), MatchError);
  assertEquals(fieldsBelow("http.req"), []);
  assertEquals(fieldsBelow("http.request").every((path) => path.startsWith("http.request.")), true);
});

Deno.test("firstRead finds the read by key that a condition makes before anything can fail", () => {
  const read = (path: string, ...keys: Key[]) => ({ path, keys });
  const cases: [match: string, expected: ReturnType<typeof read> | undefined][] = [
    [`${HEADERS}["x"][0] == "v"`, read(HEADERS, "x", 0)],
    [`"v" == ${HEADERS}.x[1]`, read(HEADERS, "x", 1)],
    [`"v" in ${HEADERS}["x"]`, read(HEADERS, "x")],
    [`${HEADERS}["x"].exists(v, v == ${HEADERS}["y"])`, read(HEADERS, "x")],
    ['mcp.request.arguments["a"].b == 1', read("mcp.request.arguments", "a", "b")],
    [`${HEADERS}["x"][0].startsWith("v")`, read(HEADERS, "x", 0)],
    [`size(${HEADERS}["x"]) > 1`, read(HEADERS, "x")],
    // Two reads, of which either may be first; something that may fail before; no read by a literal key.
    [`${HEADERS}["x"] == ${HEADERS}["y"]`, undefined],
    [`${HEADERS}["x"][0] == string(1 / 0)`, undefined],
    [`${HEADERS}[${H}] == []`, undefined],
    [`${HEADERS}["x"][-1] == "v"`, undefined],
    [`${HEADERS}["x"][9007199254740993] == "v"`, read(HEADERS, "x")],
    [`${HEADERS}["x"][1.0] == "v"`, read(HEADERS, "x")],
    [`${H} == "v"`, undefined],
    ["1 == 1", undefined],
    [`(${HEADERS}["x"] == []) == true`, undefined],
  ];
  for (const [match, expected] of cases) assertEquals(firstRead(parse(match), NOTHING), expected, match);
  assertEquals(firstRead(parse(`v == ${HEADERS}["x"]`), new Set(["v"])), read(HEADERS, "x"));
});

Deno.test("a value is absent at keys where a container lacks one, and nowhere else", () => {
  const value = { a: ["x"], b: { c: 1 }, n: null };
  const cases: [keys: Key[], absent: boolean][] = [
    [[], false],
    [["a"], false],
    [["a", 0], false],
    [["a", 1], true],
    [["z"], true],
    [["b", "c"], false],
    [["b", "z"], true],
    [["toString"], true],
    // The library reports these as errors.
    [["a", "x"], false],
    [["b", 0], false],
    [["n", "x"], false],
    [["a", 0, 0], false],
  ];
  for (const [keys, absent] of cases) assertEquals(isAbsent(value, keys), absent, JSON.stringify(keys));
  assertEquals(isAbsent(undefined, ["a"]), false);
  assertEquals(isAbsent({ constructor: 1 }, ["a"]), false);
});

Deno.test("strictFields finds the fields without which a condition is false", () => {
  const cases: [match: string, fields: string[]][] = [
    [`${H} == http.request.path`, [H, "http.request.path"]],
    [`${H} + "x" == "y"`, [H]],
    [`-(http.request.port) < 1 % http.request.bytes`, ["http.request.port", "http.request.bytes"]],
    [`[${H}] == []`, [H]],
    [`${HEADERS}["a"][http.request.port] == ""`, [HEADERS, "http.request.port"]],
    [`${H}.startsWith(http.request.path)`, [H, "http.request.path"]],
    [`in_domain(${H}, "x")`, [H]],
    [`has(${H})`, []],
    [`["a"].exists(v, v == ${H})`, []],
    [`http.request.body.text.contains(${H})`, ["http.request.body.text", H]],
    [`(${H} == "x") == true`, []],
    [`cel.bind(v, ${H}, v == "x")`, []],
    [`(true ? ${H} : "x") == "y"`, []],
  ];
  for (const [match, fields] of cases) assertEquals(strictFields(parse(match), NOTHING), fields, match);
});

Deno.test("the clauses of an expression are shown as they were written", () => {
  const cases: [match: string, clauses: string[]][] = [
    ["a && b && c", ["a", "b", "c"]],
    ["(a && b) && (c || d)", ["a", "b", "c || d"]],
    ["((a)) && !(b)", ["a", "!(b)"]],
    ["(a).b(c) && (d)", ["(a).b(c)", "d"]],
    ["a == // why\n  1 && b", ["a == 1", "b"]],
    [`a == "( // x" && b == ')'`, ['a == "( // x"', "b == ')'"]],
    ['a == """x "( y""" && b', ['a == """x "( y"""', "b"]],
    ["a == '\\'(' && (b)", ["a == '\\'('", "b"]],
    ["f(a, (b)) && c", ["f(a, (b))", "c"]],
    ["a==(1)&&b", ["a==(1)", "b"]],
  ];
  for (const [match, clauses] of cases) {
    const source = new SourceText(match);
    assertEquals(conjunctsOf(parse(match)).map((node) => source.of(node)), clauses, match);
  }
});
