/**
 * Secrets that programs print in color: the sequence before one is no part of its word, nor one inside of it.
 */
import { assert, assertEquals } from "@std/assert";
import { Redactor } from "../../../../lib/base/redact/mod.ts";

const SECRETS = [
  `sk-ant-api03-${"Zq7w".repeat(20)}`,
  `ghp_${"a1B2".repeat(9)}`,
  `AKIA${"Q2W3".repeat(4)}`,
  `glpat-${"k3Jd9".repeat(5)}`,
];
const { text: redact } = new Redactor();

Deno.test("a secret behind a color, in any notation of it, is replaced", () => {
  const colors = ["\x1b[32m", "\x1b[1;38;5;196m", "\x1b[2J", "\x1b[0K", "�[2J", "\\u001b[32m", "\\x1b[31m"];
  const others = ["\\033[32m", "\\33[1m", "\\e[32m", "^[[32m", "\x9b32m", "\x1b]8;;http://x\x07"];
  for (const secret of SECRETS) {
    for (const color of [...colors, ...others]) {
      for (const before of ["", "key: ", "word"]) {
        const found = redact(`${before}${color}${secret}\x1b[0m end\n`);
        assert(!found.includes(secret.slice(8)), JSON.stringify(found));
        assert(found.endsWith(" end\n"), JSON.stringify(found));
        assertEquals(redact(found), found);
      }
    }
  }
});

Deno.test("a secret that a color parts is replaced whole", () => {
  for (const secret of SECRETS) {
    for (let at = 1; at < secret.length - 2; at += 5) {
      const parted = `a ${secret.slice(0, at)}\x1b[7m${secret.slice(at, at + 2)}\x1b[0m${
        secret.slice(at + 2)
      } b`;
      const found = redact(parted);
      assertEquals(found, "a [redacted] b", JSON.stringify(parted));
    }
  }
});

Deno.test("a secret in UTF-16, or with marks that nobody sees, is replaced", () => {
  for (const secret of SECRETS) {
    for (const mark of ["\0", "\u200b", "\xad", "\u2060", "\\u0000"]) {
      const found = redact(`a ${[...secret].join(mark)} b`);
      assertEquals(found, "a [redacted] b", JSON.stringify(mark));
    }
    const bytes = new Uint8Array(
      new Uint16Array([...`x\n${secret}\n`].map((char) => char.charCodeAt(0))).buffer,
    );
    assert(!redact(new TextDecoder().decode(bytes)).replaceAll("\0", "").includes(secret.slice(0, 20)));
  }
});

Deno.test("colors of what is no secret stay, and time is in proportion to the text", () => {
  const plain = "\x1b[32mok\x1b[0m 3 tests \x1b[1m/usr/lib\x1b[0m \ufffd[2Jdone";
  assertEquals(redact(plain), plain);
  for (const part of ["\x1b[", "\x1b[1m", "\x1b]8;;", "\\u001b[1m"]) {
    const text = part.repeat(50_000);
    assertEquals(redact(text), text);
  }
});
