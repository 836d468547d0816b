import { assert, assertEquals } from "@std/assert";
import { Buffer } from "node:buffer";
import { Finder } from "../../lib/credential/mod.ts";
import { Redactor } from "../../lib/base/redact/mod.ts";
import { Random } from "../helper/random.ts";

const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789!#$%&()*+,-./:;<=>?@[]^_{|}~";

/** Spellings of a secret: all that the broker's finder knows. */
const ENCODINGS: ((secret: string) => string)[] = [
  (secret) => secret,
  (secret) => secret.toUpperCase(),
  (secret) => btoa(secret),
  (secret) => btoa(`user:${secret}`),
  (secret) => btoa(`ab${secret}cd`).replaceAll("+", "-").replaceAll("/", "_"),
  (secret) => btoa(secret).replaceAll(/(.{10})/g, "$1\n"),
  (secret) => Buffer.from(secret).toString("hex"),
  (secret) => Buffer.from(secret).toString("hex").toUpperCase().replaceAll(/(..)(?=.)/g, "$1:"),
  (secret) => encodeURIComponent(secret),
  (secret) => escaped(secret, (code) => `%${hex(code, 2)}`),
  (secret) => escaped(secret, (code) => `%25${hex(code, 2)}`),
  (secret) => escaped(secret, (code) => `\\u${hex(code, 4)}`),
  (secret) => escaped(secret, (code) => `&#${code};`),
  (secret) => JSON.stringify(secret).slice(1, -1),
  (secret) => JSON.stringify(JSON.stringify(secret)).slice(3, -3),
  (secret) => [...secret].join("\0"),
  (secret) => `${secret.slice(0, 9)}\n  ${secret.slice(9)}`,
];

const PIECES = [
  "2026-11-24T10:00:00.000Z info ",
  "\n",
  " at file:///home/bob/main.ts:3:1",
  '{"token":"',
  '"}',
  "password=",
  "Cookie: a=1; b=",
  "https://bob:pw@",
  "example.com/x",
  "-----BEGIN PRIVATE KEY-----\n",
  "-----END PRIVATE KEY-----",
  "ghp_0123456789abcdefghijABCDEFGHIJ012345",
  "eyJhbGciOiJIUzI1NiJ9.eyJzdWIiOiIxMjM0In0.c2lnbmF0dXJl",
  "0123456789abcdef".repeat(4),
  "[redacted]",
  "C:\\Users\\",
  '\\"',
  "\\n",
  "@",
  "a",
  "=",
  ": ",
  "'",
  "/",
];

Deno.test("no planted secret passes, in any encoding, and a second pass changes nothing", () => {
  const random = new Random(1809);
  for (let round = 0; round < 1500; round++) {
    const secret = Array.from({ length: 14 + random.below(30) }, () => random.pick([...ALPHABET])).join("");
    const finder = new Finder([["credential:blake3:0", secret]]);
    const redactor = new Redactor({ known: finder });
    const encode = random.pick(ENCODINGS);
    const noise = () => Array.from({ length: random.below(8) }, () => random.pick(PIECES)).join("");
    const text = `${noise()}${encode(secret)}${noise()}`;
    const redacted = redactor.text(text);
    assertEquals(redactor.text(redacted), redacted, JSON.stringify(text));
    const left = finder.find(redacted);
    assert(left.length === 0, `${JSON.stringify(text)} → ${JSON.stringify(redacted)}`);
    assert(!redacted.includes(secret));
  }
});

Deno.test("any text becomes still, and none throws", () => {
  const random = new Random(1810);
  const redactor = new Redactor({ hosts: ["ada"], user: "bob" });
  for (let round = 0; round < 3000; round++) {
    const text = Array.from(
      { length: random.below(30) },
      () =>
        random.below(3) > 0 ? random.pick(PIECES) : String.fromCharCode(...random.bytes(random.below(12))),
    ).join("");
    const redacted = redactor.text(text);
    assertEquals(redactor.text(redacted), redacted, JSON.stringify(text));
    const value = { [text]: text, list: [text] };
    const once = redactor.value(value);
    assertEquals(redactor.value(once), once, JSON.stringify(text));
  }
});

function escaped(secret: string, escape: (code: number) => string): string {
  return Array.from(secret, (char) => escape(char.charCodeAt(0))).join("");
}

function hex(code: number, digits: number): string {
  return code.toString(16).padStart(digits, "0");
}
