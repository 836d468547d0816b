import { assert, assertEquals } from "@std/assert";
import { intervalOf, jittered, parsePolicy } from "../../../../lib/publish/update/mod.ts";

Deno.test("a policy is minutes, hours or days within bounds, or off", () => {
  assertEquals(["90m", "24h", "7d", "off"].map(parsePolicy), [5400, 86_400, 604_800, "off"]);
  assertEquals(["1m", "9999d"].map(parsePolicy), [3600, 2_592_000]);
  for (const text of ["", "0h", "-1h", "1.5h", "24", "24 h", "h", "1e3h", "9999999h"]) {
    assertEquals(parsePolicy(text), undefined, text);
  }
});

Deno.test("corp's policy holds alone; else the shortest of the others, else a day", () => {
  assertEquals(intervalOf("7d", ["1h"]), 604_800);
  assertEquals(intervalOf("off", ["1h"]), "off");
  assertEquals(intervalOf("soon", ["2h"]), 7200);
  assertEquals(intervalOf(undefined, ["24h", "6h", "nonsense", "off"]), 21_600);
  assertEquals(intervalOf(undefined, []), 86_400);
});

Deno.test("checks of many hosts are spread over a fifth of the interval", () => {
  assertEquals([0, 0.5, 1].map((random) => jittered(1000, random)), [900, 1000, 1100]);
  const times = new Set(Array.from({ length: 20 }, () => jittered(86_400)));
  assert(times.size > 10);
});
