import { assertEquals } from "@std/assert";
import { narrowBudget } from "../../../lib/policy/budget/mod.ts";
import { BudgetTerms, VmBudget } from "../../../lib/policy/budget/schema.ts";

Deno.test("a VM's own limits narrow its profile's, and never widen them", () => {
  const profile = BudgetTerms.parse({ usd: 5, requests: 10, per_day_usd: 20, uncounted: "allow" });
  assertEquals(narrowBudget(profile, undefined), profile);
  const own = VmBudget.parse({ usd: 1, requests: 100, minutes: 30, on_limit: "block" });
  assertEquals(narrowBudget(profile, own), {
    usd: 1,
    requests: 10,
    minutes: 30,
    per_day_usd: 20,
    on_limit: "block",
    uncounted: "block",
  });
});

Deno.test("a VM has its own limits without a budget of its profile", () => {
  assertEquals(narrowBudget(undefined, { tokens: 7, uncounted: "ask" }), {
    tokens: 7,
    on_limit: "ask",
    uncounted: "ask",
  });
});

Deno.test("limits of the day are the profile's alone", () => {
  assertEquals(VmBudget.safeParse({ per_day_usd: 1 }).success, false);
  assertEquals(VmBudget.safeParse({ usd: 0 }).success, false);
});
