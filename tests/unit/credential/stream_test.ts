/** Secrets in streams: cuts of a stream do not change the output, and no part of a secret remains. */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { Finder } from "../../../lib/credential/finder.ts";
import { refOf } from "../../../lib/credential/ref.ts";
import { providerOfToken } from "../../../lib/credential/token.ts";
import { CARRY_MAX, StreamReplacer } from "../../../lib/credential/body.ts";

const SECRETS: [string, string][] = [
  [refOf("mcp", "abcabcabcabd"), "abcabcabcabd"],
  [refOf("mcp", 's3cr3t/with+"quotes"=:%'), 's3cr3t/with+"quotes"=:%'],
  [refOf("github", "ghp_" + "Ab1".repeat(12)), "ghp_" + "Ab1".repeat(12)],
];
/** Its base64 has the characters that base64url writes differently. */
const AWKWARD = "~~~???>>>~?>~?>key";
SECRETS.push([refOf("mcp", AWKWARD), AWKWARD]);
const finder = new Finder(SECRETS);
const REF = refOf("anthropic", "x");

function replaceAll(chunks: Iterable<Uint8Array>): string {
  const replacer = new StreamReplacer(() => finder, ({ kind }) => `<${kind}>`);
  const out = Array.from(chunks, (chunk) => replacer.push(chunk));
  return Buffer.concat([...out, replacer.end()]).toString("latin1");
}

const latin1 = (text: string) => Uint8Array.from(text, (char) => char.charCodeAt(0));

const CASES: [text: string, expected: string][] = [
  ["", ""],
  ["nothing here, only task-force and desk-lamp words", "nothing here, only task-force and desk-lamp words"],
  ["abcabcabcabcabd abcabcabcab", "abc<secret> abcabcabcab"],
  [`{"k":"${JSON.stringify(SECRETS[1][1]).slice(1, -1)}"}`, '{"k":"<secret>"}'],
  [`a=${encodeURIComponent(SECRETS[1][1])}&b=1`, "a=<secret>&b=1"],
  [SECRETS[2][1], "<secret>"],
  [`x${SECRETS[2][1]}y`, "x<secret>y"],
  [`token ghp_${"q9".repeat(15)}.`, "token <token>."],
  ["sk-ant-api03-0123456789abcdef\n", "<token>\n"],
  ["sk-proj-abcdefghijkl0123456789", "<token>"],
  ["sk-loading-indicator-container-large", "sk-loading-indicator-container-large"],
  ["task-0123456789012345678901234567890", "task-0123456789012345678901234567890"],
  [`key=AIza${"x".repeat(35)}&`, "key=<token>&"],
  [`a ${REF} b ${encodeURIComponent(REF)}`, "a <ref> b <ref>"],
  [`credential:blake3:${"0".repeat(63)}`, `credential:blake3:${"0".repeat(63)}`],
  ["credential:blake credential%3Ablake3%3", "credential:blake credential%3Ablake3%3"],
  ["\xff\x00\xe9 binary sk-\x80", "\xff\x00\xe9 binary sk-\x80"],
];

for (const [text, expected] of CASES) {
  Deno.test(`cut anywhere: ${JSON.stringify(text.slice(0, 60))}`, () => {
    assertEquals(replaceAll([latin1(text)]), expected);
    assertEquals(replaceAll([...text].map(latin1)), expected, "byte by byte");
    for (let cut = 1; cut < text.length; cut++) {
      assertEquals(replaceAll([latin1(text.slice(0, cut)), latin1(text.slice(cut))]), expected, `at ${cut}`);
    }
  });
}

Deno.test("base64 hides no known secret, whatever the text around it", () => {
  for (const [, secret] of SECRETS) {
    for (let before = 0; before < 7; before++) {
      for (const url of [false, true]) {
        const whole = Buffer.from(`${"u".repeat(before)}:${secret}@host`).toString(
          url ? "base64url" : "base64",
        );
        assert(replaceAll([latin1(whole)]).includes("<secret>"), `${secret} after ${before}`);
      }
    }
  }
});

/** Every spelling that servers and languages have for a text. */
const FORMS: [name: string, write: (secret: string) => string | Uint8Array][] = [
  ["upper case", (secret) => secret.toUpperCase()],
  ["JSON with \\u of every character", (secret) => escapeAll(secret, (hex) => `\\u00${hex}`)],
  ["JSON with \\u in upper case", (secret) => escapeAll(secret, (hex) => `\\u00${hex.toUpperCase()}`)],
  ["JSON in JSON", (secret) => JSON.stringify(JSON.stringify({ secret })).slice(13, -4)],
  ["\\u in JSON in JSON", (secret) => escapeAll(secret, (hex) => `\\\\u00${hex}`)],
  ["\\x", (secret) => escapeAll(secret, (hex) => `\\x${hex}`)],
  ["a backslash before punctuation", (secret) => secret.replaceAll(/[^a-z0-9]/gi, "\\$&")],
  ["percent of every character", (secret) => escapeAll(secret, (hex) => `%${hex}`)],
  ["percent twice", (secret) => escapeAll(secret, (hex) => `%25${hex}`)],
  [
    "percent of percent of every character",
    (secret) => escapeAll(escapeAll(secret, (hex) => `%${hex}`), (hex) => `%${hex}`),
  ],
  ["decimal references", (secret) => secret.replaceAll(/./g, (char) => `&#${char.charCodeAt(0)};`)],
  ["hexadecimal references", (secret) => escapeAll(secret, (hex) => `&#x00${hex};`)],
  [
    "named references",
    (secret) => secret.replaceAll("-", "&hyphen;").replaceAll("/", "&sol;").replaceAll("&", "&amp;"),
  ],
  ["hex", (secret) => Buffer.from(secret).toString("hex")],
  ["hex in upper case", (secret) => Buffer.from(secret).toString("hex").toUpperCase()],
  ["hex with colons", (secret) => Buffer.from(secret).toString("hex").replaceAll(/..(?=.)/g, "$&:")],
  ["hex in lines", (secret) => Buffer.from(secret).toString("hex").replaceAll(/.{30}/g, "$&\r\n")],
  [
    "wrapped base64",
    (secret) => Buffer.from(`u:${secret}:`).toString("base64").replaceAll(/.{19}/g, "$&\r\n  "),
  ],
  [
    "wrapped base64 in JSON",
    (secret) => Buffer.from(`u:${secret}:`).toString("base64").replaceAll(/.{19}/g, "$&\\n"),
  ],
  ["UTF-16LE", (secret) => Buffer.from(secret, "utf16le")],
  ["UTF-16BE", (secret) => Buffer.from(secret, "utf16le").swap16()],
  ["UTF-16LE of \\u", (secret) => Buffer.from(escapeAll(secret, (hex) => `\\u00${hex}`), "utf16le")],
  ["base64 of UTF-16LE", (secret) => Buffer.from(secret, "utf16le").toString("base64")],
  ["base64 of UTF-16BE", (secret) => Buffer.from(secret, "utf16le").swap16().toString("base64")],
  ["hex of UTF-16", (secret) => Buffer.from(secret, "utf16le").toString("hex")],
  ["labels of a host name", (secret) => secret.toLowerCase().replaceAll(/.{7}/g, "$&.")],
];

function escapeAll(text: string, escape: (hex: string) => string): string {
  return text.replaceAll(/./g, (char) => escape(char.charCodeAt(0).toString(16).padStart(2, "0")));
}

for (const [name, write] of FORMS) {
  Deno.test(`no form hides a secret, wherever it is cut: ${name}`, () => {
    for (
      const secret of [
        SECRETS[2][1],
        "sk-ant-api03-Zq7_x/y+z9",
        "npm_0123456789abcdef",
        "dead-beef-0123-4567",
      ]
    ) {
      const known = new Finder([[REF, secret]], { shapes: false });
      const form = Buffer.from(write(secret) as string, "latin1");
      const bytes = Buffer.concat([Buffer.from("(\xff "), form, Buffer.from(" )")]);
      const run = (size: number) => {
        const replacer = new StreamReplacer(() => known, () => "<>");
        const out: Uint8Array[] = [];
        for (let at = 0; at < bytes.length; at += size) {
          out.push(replacer.push(bytes.subarray(at, at + size)));
        }
        return Buffer.concat([...out, replacer.end()]).toString("latin1");
      };
      const whole = run(bytes.length);
      assert(whole.includes("<>"), `${name}: ${bytes.toString("latin1")}`);
      // Characters beside the secret may stay in base64 and UTF-16; no more.
      assert(whole.length <= 24, whole);
      for (const size of [1, 2, 3, 7, 11]) assertEquals(run(size), whole, `pieces of ${size}`);
    }
  });
}

Deno.test("a secret behind something that looks like an escape is found", () => {
  for (
    const secret of ["ab12cdef34567890", "npm_0123456789abcdef", "u0041_0123456789", "lt;0123456789abcd"]
  ) {
    const known = new Finder([[REF, secret]], { shapes: false });
    for (const before of ["%", "100%", "\\", "C:\\", "&", "%2", "\\u", "&#"]) {
      assertEquals(known.find(before + secret).length, 1, before + secret);
    }
  }
});

Deno.test("a finder that comes later searches what follows", () => {
  const known: Finder[] = [];
  const replacer = new StreamReplacer(() => known.at(0), () => "<>");
  const chunk = latin1(SECRETS[2][1]);
  assert(replacer.push(chunk) === chunk);
  known.push(finder);
  assertEquals(Buffer.concat([replacer.push(chunk), replacer.end()]).toString(), "<>");
});

Deno.test("a chunk without matches passes uncopied, and the end of a line is never held back", () => {
  const replacer = new StreamReplacer(() => finder, () => "");
  const chunk = latin1('data: {"text":"hello"}\n\n');
  assert(replacer.push(chunk) === chunk || replacer.push(chunk).buffer === chunk.buffer);
  assertEquals(replacer.end().length, 0);
});

Deno.test("held bytes are bounded, and endless input of one secret's beginning costs linear time", () => {
  const secret = "a".repeat(2048) + "b" + "a".repeat(2000);
  const hostile = new Finder([[refOf("mcp", secret), secret]]);
  const replacer = new StreamReplacer(() => hostile, () => "");
  const chunk = latin1("a".repeat(64 * 1024));
  let out = 0;
  for (let round = 0; round < 100; round++) out += replacer.push(chunk).length;
  assert(100 * chunk.length - out <= CARRY_MAX);
  assertEquals(
    hostile.find("a".repeat(5000) + secret.slice(2048)).map(({ start, end }) => [start, end]),
    [[5000 - 2048, 5000 + 2001]],
  );
});

Deno.test("tokens by shape: the longer prefix first", () => {
  const cases: [string, string | undefined][] = [
    ["sk-ant-api03-0123456789abcdef", "anthropic"],
    ["sk-0123456789abcdef0123", "openai"],
    ["AIzaSyD-9tSrke72PouQMnMX-a7eZSW0jkFMBWY", "google"],
    ["github_pat_" + "a".repeat(40), "github"],
    ["gho_" + "a".repeat(36), "github"],
    ["ghs_" + "a".repeat(36), "github"],
    ["ghx_" + "a".repeat(36), undefined],
    ["sk-short1", undefined],
  ];
  for (const [token, provider] of cases) assertEquals(providerOfToken(token), provider, token);
});
