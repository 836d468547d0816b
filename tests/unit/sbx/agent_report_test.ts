import { assertEquals, assertStringIncludes } from "@std/assert";
import { formatReport, sumOf } from "../../../cmd/sbx/start/agent_report.ts";

const PRICED = {
  provider: "anthropic",
  model: "claude",
  calls: 2,
  input_tokens: 1000,
  cached_input_tokens: 400,
  output_tokens: 50,
  cost_micros: 12_345,
  unpriced_calls: 0,
  estimated_calls: 0,
};
const UNPRICED = {
  ...PRICED,
  model: "new",
  calls: 1,
  cached_input_tokens: 0,
  cost_micros: 0,
  unpriced_calls: 1,
};

const costLine = (...models: (typeof PRICED)[]) =>
  formatReport({ live: false, refused: [], unanswered: [], cost: sumOf(models), budgets: [] }, "vm").split(
    "\n",
  )[2];

Deno.test("an agent's report sums up its models, and tells tokens of a cache", () => {
  assertEquals(
    costLine(PRICED, PRICED),
    "4 model calls: 2000 (800 of them cached) + 100 tokens, cost $0.0247",
  );
  assertEquals(costLine(), "no model calls");
});

Deno.test("a call without a known price is no call for nothing", () => {
  assertEquals(
    costLine(UNPRICED),
    "1 model call: 1000 + 50 tokens, cost not known: no call has a known price",
  );
  assertStringIncludes(costLine(PRICED, UNPRICED), "cost $0.0123, 1 call whose price is not known");
});

Deno.test("work that was pulled before is not offered to sbx pull again", () => {
  const lastLines = (live: boolean, untaken: { commits: number; files: number }) => {
    const changes = { files: 1, added: 1, removed: 1, commits: 1 };
    const terms = { live, changes, untaken, refused: [], unanswered: [], cost: sumOf([]), budgets: [] };
    return formatReport(terms, "vm").split("\n").at(-2);
  };
  const none = { commits: 0, files: 0 };
  assertEquals(lastLines(false, none), "all of it was pulled before; sbx diff vm shows it");
  assertEquals(
    lastLines(false, { commits: 0, files: 1 }),
    "sbx review vm shows the changes, sbx pull vm takes them",
  );
  assertEquals(lastLines(true, none), "sbx review vm shows the changes, sbx pull vm takes their commits");
});
