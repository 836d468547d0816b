/** Lines of a diff with their numbers. */
import { assertEquals } from "@std/assert";
import { numbered } from "../../../cmd/desktop/page/vm/work/lines.ts";

Deno.test("lines have their numbers before and after, and the head of a diff is left out", () => {
  const diff = [
    "diff --git a/x b/x",
    "--- a/x",
    "+++ b/x",
    "@@ -2,3 +2,4 @@ fn main() {",
    " a",
    "--- gone",
    "+++ new",
    "+more",
    "\\ No newline at end of file",
    "",
  ];
  assertEquals(numbered(diff), [
    { kind: "place", text: "@@ -2,3 +2,4 @@ fn main() {" },
    { kind: "same", before: 2, after: 2, text: "a" },
    { kind: "minus", before: 3, text: "-- gone" },
    { kind: "plus", after: 3, text: "++ new" },
    { kind: "plus", after: 4, text: "more" },
    { kind: "place", text: "\\ No newline at end of file" },
  ]);
});

Deno.test("a file without lines shows the head of its diff", () => {
  const head = ["diff --git a/x b/x", "new file mode 100755", "Binary files differ", ""];
  assertEquals(
    numbered(head).map(({ kind, text }) => [kind, text]),
    head.slice(0, 3).map((line) => ["place", line]),
  );
  assertEquals(numbered([]), []);
});
