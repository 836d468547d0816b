import { assertEquals } from "@std/assert";
import { canonicalJson } from "../../../lib/base/json/mod.ts";

const CANONICAL: [unknown, string][] = [
  [{ b: 1, a: { d: [], c: {} } }, '{"a":{"c":{},"d":[]},"b":1}'],
  [{ a: undefined, b: null }, '{"b":null}'],
  [[1, undefined, "x"], '[1,null,"x"]'],
  ['é"\\\n\u0001😀\ud800', '"é\\"\\\\\\n\\u0001😀\\ud800"'],
  [{ "\ufb33": 1, "😀": 2, "\r": 3, "1": 4 }, '{"\\r":3,"1":4,"😀":2,"\ufb33":1}'],
  [[1e21, 1e-7, -0, 0.1, 333333333.33333329], "[1e+21,1e-7,0,0.1,333333333.3333333]"],
  [true, "true"],
  [
    { a: [{ d: 1, c: [{ y: 2, x: { b: 3, a: 4 } }] }], b: {} },
    '{"a":[{"c":[{"x":{"a":4,"b":3},"y":2}],"d":1}],"b":{}}',
  ],
  [{ b: 1, a: { "10": 1, "9": 2 } }, '{"a":{"10":1,"9":2},"b":1}'],
  [JSON.parse('{"b":1,"__proto__":{"d":1,"c":2}}'), '{"__proto__":{"c":2,"d":1},"b":1}'],
  [JSON.parse('{"__proto__":{"d":1,"c":2},"b":1}'), '{"__proto__":{"c":2,"d":1},"b":1}'],
];
for (const [value, text] of CANONICAL) {
  Deno.test(`canonical JSON: ${text}`, () => assertEquals(canonicalJson(value), text));
}

Deno.test("canonical JSON of deep values takes linear time", () => {
  let value: unknown = { b: 1, a: 2 };
  for (let depth = 0; depth < 500; depth++) value = { z: value, a: [value === null] };
  const text = canonicalJson(value);
  assertEquals(text.length, JSON.stringify(value).length);
  assertEquals(canonicalJson(JSON.parse(text)), text);
});

Deno.test("canonical JSON: the samples of RFC 8785, 3.2.2 to 3.2.4", () => {
  const sample = String.raw`{
    "numbers": [333333333.33333329, 1E30, 4.50, 2e-3, 0.000000000000000000000000001],
    "string": "\u20ac$\u000F\u000aA'\u0042\u0022\u005c\\\"\/",
    "literals": [null, true, false]
  }`;
  const expected =
    "7b226c69746572616c73223a5b6e756c6c2c747275652c66616c73655d2c226e756d62657273223a5b3333333333333333332" +
    "e333333333333332c31652b33302c342e352c302e3030322c31652d32375d2c22737472696e67223a22e282ac245c75303030665c6e4127425c" +
    "225c5c5c5c5c222f227d";
  assertEquals(new TextEncoder().encode(canonicalJson(JSON.parse(sample))).toHex(), expected);
  const keys = ["\u20ac", "\r", "\ufb33", "1", "\u{1f600}", "\u0080", "\u00f6"];
  const sorted = ["\r", "1", "\u0080", "\u00f6", "\u20ac", "\u{1f600}", "\ufb33"];
  const text = canonicalJson(Object.fromEntries(keys.map((key) => [key, 0])));
  assertEquals(text, `{${sorted.map((key) => `${JSON.stringify(key)}:0`).join(",")}}`);
});
