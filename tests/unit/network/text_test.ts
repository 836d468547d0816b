/** Text of bodies: what a record shows, and what a receiver may read besides. */
import { assertEquals } from "@std/assert";
import { charsetOf, isUnambiguous, possibleText } from "../../../lib/network/message/text.ts";

const bytes = (...codes: number[]) => new Uint8Array(codes);
const utf8 = (text: string) => new TextEncoder().encode(text);

Deno.test("a content type has one charset, UTF-8 where it says none, and none where nobody knows it", () => {
  const cases: [string, string | undefined][] = [
    ["", "utf-8"],
    ["text/plain", "utf-8"],
    ["text/plain; charset=US-ASCII", "utf-8"],
    ['text/plain; charset="utf-8"', "utf-8"],
    ["text/plain; charset=", "utf-8"],
    ["text/plain;Charset = latin1; x=y", "windows-1252"],
    ["text/plain; charset=utf-8; charset=UTF8", "utf-8"],
    ["text/plain; charset=utf-8; charset=utf-16", undefined],
    ["text/plain; charset=utf-7", undefined],
    ["text/plain; charset=iso-2022-kr", undefined],
  ];
  for (const [type, charset] of cases) assertEquals(charsetOf(type), charset, type);
});

Deno.test("bytes have one reading only in UTF-8 or a charset of single bytes, without NUL or a mark of UTF-16", () => {
  assertEquals(isUnambiguous(utf8("plain"), undefined), true);
  assertEquals(isUnambiguous(utf8("plain"), "text/plain; charset=latin1"), true);
  assertEquals(isUnambiguous(utf8("plain"), "text/plain; charset=shift_jis"), false);
  assertEquals(isUnambiguous(utf8("plain"), "text/plain; charset=utf-7"), false);
  assertEquals(isUnambiguous(bytes(97, 0), undefined), false);
  assertEquals([bytes(0xff, 0xfe), bytes(0xfe, 0xff)].map((mark) => isUnambiguous(mark, undefined)), [
    false,
    false,
  ]);
  assertEquals([bytes(0xff, 0xff), bytes(0xfe, 0xfe)].map((mark) => isUnambiguous(mark, undefined)), [
    true,
    true,
  ]);
});

Deno.test("a body's possible text holds each reading once", () => {
  assertEquals(possibleText(utf8("plain"), undefined), "plain");
  assertEquals(possibleText(bytes(97, 0, 98, 0), undefined), "a\0b\0\nab");
  assertEquals(possibleText(bytes(0x61, 0xe4), "text/plain; charset=latin1"), "a\ufffd\na\u00e4");
  assertEquals(possibleText(bytes(0xff, 0xfe, 97, 0), undefined)?.split("\n").includes("a"), true);
  assertEquals(possibleText(bytes(0xfe, 0xff, 0, 97), undefined)?.split("\n").includes("a"), true);
  assertEquals(possibleText(bytes(97, 0), "text/plain; charset=utf-16le")?.split("\n"), ["a\0", "a"]);
  assertEquals(possibleText(utf8("plain"), "text/plain; charset=utf-7"), undefined);
});
