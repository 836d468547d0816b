/** Costs by day as the desktop's chart shows them. */
import { assertEquals } from "@std/assert";
import { costDaysOf, type DayCost, spanOf } from "../../../cmd/desktop/store/cost_days.ts";

const UNTIL = Date.UTC(2026, 10, 30, 23, 59);

function cost(day: string, model: string, cost_micros: number): DayCost {
  const tokens = { input_tokens: 1, cached_input_tokens: 0, output_tokens: 1 };
  return {
    ...{ day, provider: "anthropic", model, calls: 1, cost_micros, unpriced_calls: 0, estimated_calls: 0 },
    ...tokens,
  };
}

Deno.test("desktop: each day has a bar, the dearest models a part of their own, the others one", () => {
  const rows = [
    cost("2026-11-28", "a", 5),
    cost("2026-11-30", "b", 40),
    cost("2026-11-30", "c", 30),
    cost("2026-11-30", "d", 20),
    cost("2026-11-30", "e", 10),
    cost("2026-11-20", "b", 1000),
  ];
  const { models, days } = costDaysOf(rows, UNTIL, 3);
  assertEquals(models, ["anthropic b", "anthropic c", "anthropic d", undefined]);
  assertEquals(days, [
    { day: "2026-11-28", micros: 5, parts: [0, 0, 0, 5] },
    { day: "2026-11-29", micros: 0, parts: [0, 0, 0, 0] },
    { day: "2026-11-30", micros: 100, parts: [40, 30, 20, 10] },
  ]);
  assertEquals(costDaysOf(rows.slice(0, 2), UNTIL, 1).models, ["anthropic b", "anthropic a"]);
});

Deno.test("desktop: a session's chart begins with its first call, within bounds", () => {
  assertEquals(spanOf([cost("2026-11-29", "a", 1)], UNTIL, 7, 30), 7);
  assertEquals(spanOf([cost("2026-11-20", "a", 1)], UNTIL, 7, 30), 11);
  assertEquals(spanOf([cost("2025-11-20", "a", 1)], UNTIL, 7, 30), 30);
  assertEquals(spanOf([], UNTIL, 7, 30), 7);
});
