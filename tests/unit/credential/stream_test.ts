/** Secrets in streams: cuts of a stream do not change the output, and no part of a secret remains. */
import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { Finder } from "../../../lib/credential/finder.ts";
import { formsOf } from "../../../lib/credential/form.ts";
import { Needle } from "../../../lib/credential/needle.ts";
import { refOf } from "../../../lib/credential/ref.ts";
import { StreamReplacer } from "../../../lib/credential/stream.ts";
import { providerOfToken } from "../../../lib/credential/token.ts";

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
        assert(formsOf(secret).some((form) => whole.includes(form)), `${secret} after ${before}`);
        assert(replaceAll([latin1(whole)]).includes("<secret>"));
      }
    }
  }
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
  assert(100 * chunk.length - out <= 16 * 1024);
  const needle = new Needle(secret, "");
  assertEquals(needle.indexIn("a".repeat(5000) + secret.slice(2048), 0), 5000 - 2048);
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
