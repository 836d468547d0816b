/** Events that repeat one another are one line of a timeline. */
import { assertEquals } from "@std/assert";
import { linesOf, type Row } from "../../../cmd/desktop/page/vm/timeline/lines.ts";

const row = (id: string, subject: string, decision = "allow"): Row => ({
  ...{
    id,
    sequence: 1,
    time: 0,
    family: "dns",
    type: "dns.query",
    subject,
    decision,
    rule: "r",
    program: "",
  },
});
const shown = (rows: Row[], open: string[] = []) =>
  linesOf(rows, new Set(open)).map(({ id, rows, isPart }) => [id, rows.length, isPart ?? false]);

Deno.test("repeats in a row are one line, named by the oldest, and are listed once it is open", () => {
  const rows = [row("e", "a"), row("d", "a"), row("c", "b"), row("b", "a"), row("a", "a", "block")];
  assertEquals(shown(rows), [["d", 2, false], ["c", 1, false], ["b", 1, false], ["a", 1, false]]);
  assertEquals(shown([row("f", "a"), ...rows])[0], ["d", 3, false]);
  assertEquals(shown(rows, ["d", "c"]), [
    ["d", 2, false],
    ["part e", 1, true],
    ["part d", 1, true],
    ["c", 1, false],
    ["b", 1, false],
    ["a", 1, false],
  ]);
  assertEquals(shown([]), []);
});
