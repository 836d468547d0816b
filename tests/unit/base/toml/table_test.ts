import { assertEquals, assertMatch, assertThrows } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { parseToml } from "../../../../lib/base/toml/mod.ts";

/** Name, document and expected value, with dates as text. */
const VALID: [string, string, Record<string, unknown>][] = [
  ["nothing", "", {}],
  ["comments only", "# a\n\n  # b", {}],
  ["no line end at the end", "a = 1", { a: 1 }],
  ["byte order mark", "\ufeffa = 1\n", { a: 1 }],
  ["Windows line ends", "a = 1\r\n[b]\r\nc = 2\r\n", { a: 1, b: { c: 2 } }],
  ["bare, quoted and empty keys", `a-b_1 = 1\n"a b" = 2\n'c"d' = 3\n"" = 4`, {
    "a-b_1": 1,
    "a b": 2,
    'c"d': 3,
    "": 4,
  }],
  ["keys of digits", "1234 = 1\n3.14 = 2", { "1234": 1, "3": { "14": 2 } }],
  ["dotted keys with spaces", "a . b = 1\na.c = 2", { a: { b: 1, c: 2 } }],
  ["quoted dots", `[settings."app.theme"]\nvalue = "dark"`, { settings: { "app.theme": { value: "dark" } } }],
  ["super table after its child", "[a.b]\nc = 1\n[a]\nd = 2", { a: { b: { c: 1 }, d: 2 } }],
  ["array of tables", "[[a]]\nb = 1\n[[a]]\n[a.c]\nd = 2", { a: [{ b: 1 }, { c: { d: 2 } }] }],
  ["inline tables", "a = { b = 1, c.d = 'x' }\ne = {}", { a: { b: 1, c: { d: "x" } }, e: {} }],
  ["inline table over lines (TOML 1.1)", "a = {\n  b = 1,\n}\n", { a: { b: 1 } }],
  ["arrays over lines, comments, last comma", "a = [ # x\n 1, # ]\n [2, 'b'],\n]", { a: [1, [2, "b"]] }],
  ["integers", "a = +99\nb = -0\nc = 1_000\nd = 0xDEAD_beef\ne = 0o755\nf = 0b1101", {
    a: 99,
    b: 0,
    c: 1000,
    d: 0xdeadbeef,
    e: 0o755,
    f: 13,
  }],
  ["largest exact integers", "a = 9007199254740991\nb = -9007199254740991", {
    a: 9007199254740991,
    b: -9007199254740991,
  }],
  ["floats", "a = 3.14\nb = -0.01\nc = 5e+22\nd = 1E6\ne = 6.626e-34\nf = 9_224.445_1", {
    a: 3.14,
    b: -0.01,
    c: 5e22,
    d: 1e6,
    e: 6.626e-34,
    f: 9224.4451,
  }],
  ["infinity and not a number", "a = inf\nb = -inf\nc = nan", { a: Infinity, b: -Infinity, c: NaN }],
  ["booleans", "a = true\nb = false", { a: true, b: false }],
  ["escapes", String.raw`a = "\b\t\n\f\r\"\\\u00e9\U0001F600"`, { a: '\b\t\n\f\r"\\é😀' }],
  ["escapes of TOML 1.1", String.raw`a = "\e[0m \x41"`, { a: "\x1b[0m A" }],
  ["an escaped NUL is text", String.raw`a = "\u0000"`, { a: "\0" }],
  ["literal strings", String.raw`a = 'C:\x\u0041'`, { a: String.raw`C:\x\u0041` }],
  ["multi-line strings", 'a = """\none\ntwo"""', { a: "one\ntwo" }],
  ["line-ending backslash", 'a = """one \\\n   two"""', { a: "one two" }],
  ["quotes at the end of a multi-line string", `a = """""x"""""\nb = '''''x'''''`, {
    a: '""x""',
    b: "''x''",
  }],
  ["a hash in a string", `a = "#" # real\nb = '# no'`, { a: "#", b: "# no" }],
  ["brackets in strings", `a = ["]", '}', """]"""]\n[b]\nc = 1`, { a: ["]", "}", "]"], b: { c: 1 } }],
  ["text beyond ASCII", "a = 'жå日本'", { a: "жå日本" }],
  ["offset date-times", "a = 1979-05-27T07:32:00Z\nb = 1979-05-27 00:32:00.5-07:00", {
    a: "1979-05-27T07:32:00.000Z",
    b: "1979-05-27T00:32:00.500-07:00",
  }],
  ["local dates and times", "a = 1979-05-27T07:32:00\nb = 1979-05-27\nc = 07:32:00", {
    a: "1979-05-27T07:32:00.000",
    b: "1979-05-27",
    c: "07:32:00.000",
  }],
  ["leap days", "a = 2024-02-29\nb = 2000-02-29", { a: "2024-02-29", b: "2000-02-29" }],
  ["an impossible date in a string", "a = '2021-04-31' # 2021-02-30", { a: "2021-04-31" }],
  ["names that JavaScript knows", "constructor = 1\n[__proto__]\nx = 2", {
    constructor: 1,
    ["__proto__"]: { x: 2 },
  }],
  ["deep nesting", `a = ${"[".repeat(200)}${"]".repeat(200)}`, {
    a: Array.from({ length: 199 }).reduce<unknown[]>((inner) => [inner], []),
  }],
];

/** Name, document, and the expected line and column in the message. */
const INVALID: [string, string, string][] = [
  ["the same key twice", "a = 1\na = 2", "2:1"],
  ["the same key twice, quoted and bare", `a = 1\n"a" = 2`, "2:1"],
  ["the same table twice", "[a]\nb = 1\n[a]\nc = 2", "3:2"],
  ["a dotted key that a table repeats", "a.b = 1\n[a]\nc = 1", "2:2"],
  ["a value used as a table", "a = 1\na.b = 2", "2:1"],
  ["an inline table that grows", "a = { b = 1 }\na.c = 2", "2:1"],
  ["an array that grows by a table", "a = [1]\n[[a]]", "2:3"],
  ["an array of tables as table", "[[a]]\n[a]", "2:2"],
  ["two pairs on a line", "a = 1 b = 2", "1:7"],
  ["a pair behind a header", "[a] b = 1", "1:5"],
  ["no value", "a =\nb = 1", "1:4"],
  ["no value at the end", "a =", "1:4"],
  ["no key", "= 1", "1:1"],
  ["no equals sign", "a\nb = 1", "1:2"],
  ["two equals signs", "a = = 1", "1:5"],
  ["a bare word", "a = yes", "1:5"],
  ["a capital True", "a = True", "1:5"],
  ["an unclosed string", 'a = "x\nb = 1', "1:7"],
  ["an unclosed literal", "a = 'x", "1:5"],
  ["an unclosed multi-line string", 'a = """x\n', "1:5"],
  ["an unclosed array", "a = [1, 2\n", "2:1"],
  ["an unclosed inline table", "a = { b = 1\n", "2:1"],
  ["an unclosed header", "[a\nb = 1", "1:3"],
  ["an empty header", "[]", "1:2"],
  ["a wrong escape", String.raw`a = "\q"`, "1:7"],
  ["a surrogate half", String.raw`a = "\ud800"`, "1:6"],
  ["a code point beyond Unicode", String.raw`a = "\U00110000"`, "1:6"],
  ["a short escape", String.raw`a = "\u12"`, "1:10"],
  ["a control character in a string", 'a = "\x01"', "1:6"],
  ["a control character in a comment", "a = 1 # \x07", "1:9"],
  ["a delete character", 'a = "\x7f"', "1:6"],
  ["a raw NUL", "a = 1\nb = '\0'", "2:6"],
  ["a line feed in a key", '"a\nb" = 1', "1:3"],
  ["a lone carriage return", "a = 1\rb = 2", "1:6"],
  ["a no-break space", "a = 1\u00a0", "1:6"],
  ["a leading zero", "a = 01", "1:5"],
  ["a signed hexadecimal", "a = -0x1", "1:5"],
  ["a capital 0X", "a = 0X1", "1:5"],
  ["two underscores", "a = 1__0", "1:7"],
  ["an underscore at the end", "a = 1_", "1:5"],
  ["no digit before the point", "a = .5", "1:5"],
  ["no digit after the point", "a = 5.", "1:5"],
  ["an exponent without digits", "a = 1e", "1:5"],
  ["an integer beyond 2^53", "a = 9223372036854775807", "1:5"],
  ["month 13", "a = 2021-13-01", "1:5"],
  ["April 31", "a = 1\nb = 2021-04-31", "2:5"],
  ["February 29 of a common year", "a = [2021-02-29]", "1:6"],
  ["February 29 of 1900", "a = { b = 1900-02-29T00:00:00Z }", "1:11"],
  ["hour 24", "a = 24:00:00", "1:5"],
  ["minute 60", "a = 10:60:00", "1:5"],
  ["nested too deep", `a = ${"[".repeat(5000)}`, "1:1005"],
];

Deno.test("the table has at least 60 documents", () => {
  assertEquals(VALID.length + INVALID.length >= 60, true);
});

for (const [name, text, expected] of VALID) {
  Deno.test(`valid: ${name}`, () => {
    const { value } = parseToml(text, "f");
    assertEquals(toPlain(value), toPlain(expected));
  });
}

for (const [name, text, place] of INVALID) {
  Deno.test(`invalid: ${name}`, () => {
    const error = assertThrows(() => parseToml(text, "f"), SbxError);
    assertEquals(error.code, "toml.invalid");
    assertEquals(error.message.split(": ", 1)[0], `f:${place}`);
    assertMatch(error.message, /^f:\d+:\d+: [^\n]+$/);
  });
}

/** Converts dates to text and objects to pairs, so that `__proto__` is compared like any other key. */
function toPlain(value: unknown): unknown {
  if (value instanceof Date) return (value as unknown as { toISOString(): string }).toISOString();
  if (Array.isArray(value)) return value.map(toPlain);
  if (typeof value !== "object" || value === null) return Object.is(value, -0) ? 0 : value;
  return Object.entries(value).map(([key, inner]) => [key, toPlain(inner)]);
}
