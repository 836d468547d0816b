/** Cards of the inbox: no ask that a guest sends comes under the hand of a person who reads another one. */
import { assertEquals, assertStrictEquals } from "@std/assert";
import {
  choose,
  hidden,
  mayAnswer,
  neighbour,
  NOTHING,
  present,
  reveal,
} from "../../../cmd/desktop/page/inbox/shown.ts";
import { READ_MS } from "../../../lib/policy/ask/limit.ts";

Deno.test("desktop: new asks wait behind the bar, and move nothing", () => {
  const first = present(NOTHING, ["a"], 1000);
  assertEquals(first, { ids: ["a"], chosen: "a", since: 1000 });
  const second = present(first, ["c", "b", "a"], 5000);
  assertStrictEquals(second, first);
  assertEquals([hidden(second, ["c", "b", "a"]), mayAnswer(second, "a", 5000)], [2, true]);
  assertEquals(mayAnswer(second, "b", 9000), false, "behind the bar");
  const all = reveal(second, ["c", "b", "a"], 6000);
  assertEquals(all, { ids: ["c", "b", "a"], chosen: "a", since: 6000 });
  assertEquals([all.ids.map((id) => mayAnswer(all, id, 6000 + READ_MS - 1)), hidden(all, all.ids)], [
    [false, false, false],
    0,
  ]);
  assertEquals(mayAnswer(all, "c", 6000 + READ_MS), true);
});

Deno.test("desktop: an ask that is over gives its place to no card that can be answered at once", () => {
  const three = choose(reveal(NOTHING, ["a", "b", "c"], 0), "b", 100);
  assertEquals([three.chosen, mayAnswer(three, "b", 100 + READ_MS)], ["b", true]);
  const two = present(three, ["x", "a", "c"], 2000);
  assertEquals(two, { ids: ["a", "c"], chosen: "c", since: 2000 });
  assertEquals(["b", "c", "x"].map((id) => mayAnswer(two, id, 2000)), [false, false, false]);
  // The page is empty: what waited is shown, and is read first.
  const next = present(two, ["x"], 3000);
  assertEquals([next, mayAnswer(next, "x", 3000)], [{ ids: ["x"], chosen: "x", since: 3000 }, false]);
  assertEquals(present(next, [], 4000), { ids: [], chosen: undefined, since: 4000 });
});

Deno.test("desktop: j and k choose by id, and what they choose is read first", () => {
  const cards = reveal(NOTHING, ["a", "b"], 0);
  assertEquals([neighbour(cards, 1), neighbour(cards, -1)], ["b", "a"]);
  const chosen = choose(cards, neighbour(cards, 1), 5000);
  assertEquals([chosen.chosen, mayAnswer(chosen, "b", 5001), neighbour(chosen, 1)], ["b", false, "b"]);
  assertStrictEquals(choose(chosen, "gone", 6000), chosen);
});
