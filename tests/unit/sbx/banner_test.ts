import { assertEquals } from "@std/assert";
import { Banner, endsInside } from "../../../cmd/sbx/vm/attach.ts";

const encode = (text: string) => new TextEncoder().encode(text);
const decode = (bytes: Uint8Array) => new TextDecoder().decode(bytes);

Deno.test("output that ends in the middle of a sequence or a character is not written into", () => {
  const inside = [
    "\x1b",
    "a\x1b[",
    "\x1b[38;5",
    "\x1b]0;a title",
    "\x1b]8;;http://x\x1b",
    "\x1b(",
    "\x1bP1$r",
  ];
  const whole = [
    "",
    "text",
    "\x1b[1;31m",
    "\x1b[?25l",
    "\x1b]0;t\x07",
    "\x1b]0;t\x1b\\",
    "\x1b7",
    "\x1b(B",
    "\x1b[mx",
    "é",
    "日",
  ];
  for (const text of inside) assertEquals(endsInside(encode(text)), true, JSON.stringify(text));
  for (const text of whole) assertEquals(endsInside(encode(text)), false, JSON.stringify(text));
  for (const cut of [1, 2]) assertEquals(endsInside(encode("日").subarray(0, cut)), true);
  assertEquals(endsInside(encode("é").subarray(0, 1)), true);
});

Deno.test("a banner fills the line at any width, without what would break it", () => {
  const banner = new Banner();
  let changes = 0;
  banner.follow(() => changes++);
  banner.set("sbx allow|deny ask-1: 日.example");
  banner.set("sbx allow|deny ask-1: 日.example");
  assertEquals(changes, 1);
  // deno-lint-ignore no-control-regex
  const lineAt = (columns: number) => /\x1b\[7m(.*)\x1b\[m/.exec(decode(banner.sequence(columns)))![1];
  assertEquals(lineAt(40), "sbx allow|deny ask-1: ?.example".padEnd(40));
  assertEquals(lineAt(10), "sbx allow>");
  banner.set(undefined);
  assertEquals([banner.isShown, decode(banner.sequence(10))], [false, "\x1b7\x1b[1;1H\x1b[m\x1b[2K\x1b8"]);
});
