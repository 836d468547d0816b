/** A job's output on a person's terminal. */
import { assertEquals } from "@std/assert";
import { LogText } from "../../../cmd/sbx/vm/program.ts";

/** What a terminal gets of pieces. */
function shown(...pieces: string[]): string {
  const text = new LogText();
  return pieces.map((piece) => text.push(new TextEncoder().encode(piece))).join("");
}

Deno.test("text, tabs and lines stay, also those of a terminal and of a progress bar", () => {
  assertEquals(shown("a\tb\n", "ü\r\n", "10%\r20%\r\n"), "a\tb\nü\n10%\n20%\n");
  assertEquals(shown("line\r", "\nnext"), "line\nnext");
});

Deno.test("escapes are left out: colours, titles, the cursor, the alternate screen, links", () => {
  const escapes = [
    "\x1b[31m",
    "\x1b]0;title\x07",
    "\x1b[2J",
    "\x1b[?1049h",
    "\x1b]8;;http://x\x1b\\",
    "\x1bc",
    "\x1b(0",
  ];
  assertEquals(shown(...escapes.map((escape) => `${escape}x`)), "x".repeat(escapes.length));
});

Deno.test("an escape cut between two pieces is one, and what is none does not reach the terminal", () => {
  assertEquals(shown("a\x1b[3", "1mb"), "ab");
  assertEquals(shown("a\x1b", "]52;c;aGk=\x07b"), "ab");
  assertEquals(shown("\x9b2Jx", "\u202ey"), "�2Jx�y");
  const endless = shown("\x1b]0;", "x".repeat(5000), "y");
  assertEquals([endless.includes("\x1b"), endless.endsWith("y")], [false, true]);
});
