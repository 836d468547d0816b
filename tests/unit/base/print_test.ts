import { assertEquals } from "@std/assert";
import { formatJson, plain } from "../../../lib/base/print/mod.ts";
import { codeBelow, fromRoot } from "../../helper/repo.ts";

/**
 * One of each kind: C0, DEL, C1 (CSI), Arabic letter mark, right-to-left override, isolate, line separator,
 * BOM, tag, filler, joiner, annotation.
 */
const HOSTILE = [
  "\x1b",
  "\r",
  "\0",
  "\x7f",
  "\x9b",
  "\u061c",
  "\u202e",
  "\u2066",
  "\u2028",
  "\ufeff",
  "\u{e0041}",
  "\u3164",
  "\u034f",
  "\ufff9",
];

Deno.test("plain text keeps letters, tabs and emoji, and nothing that moves the cursor or turns the line", () => {
  for (const char of HOSTILE) {
    assertEquals(plain(`a${char}b`), "a�b");
    assertEquals(plain(`a${char}b`, true), "a�b");
  }
  assertEquals(plain("tab\tline\nünï 日本 👩‍💻"), "tab\tline ünï 日本 👩‍💻");
  assertEquals(plain("a\nb", true), "a\nb");
});

Deno.test("JSON has none of them either, and is the same value", () => {
  const value = { [`k${HOSTILE.join("")}`]: HOSTILE, deep: [{ text: `x${HOSTILE.join("y")}` }] };
  for (const indent of [undefined, 2]) {
    const text = formatJson(value, indent);
    assertEquals(plain(text, true), text);
    assertEquals(JSON.parse(text), value);
  }
});

Deno.test("commands print through lib/base/print only", async () => {
  for (const path of [...await codeBelow("cmd/sbx"), ...await codeBelow("cmd/admin")]) {
    const text = await Deno.readTextFile(fromRoot(path));
    assertEquals(text.match(/console\.\w+\(|print\(JSON\.stringify/g), null, path);
  }
});
