/** Costs of a session by model, from its ledger, and as people see them. */
import { assertEquals, assertMatch } from "@std/assert";
import { formatCosts, formatDays } from "../../../cmd/sbx/record/costs.ts";
import type { BudgetUse } from "../../../lib/policy/budget/mod.ts";
import { Ledger } from "../../../lib/ledger/mod.ts";
import { readCosts, readCostsByDay } from "../../../lib/ledger/read/mod.ts";
import { PRICES_NOTE } from "../../../lib/network/model/mod.ts";
import { requestEvent, SESSION, withLedgerPath } from "../../helper/ledger.ts";

const USE: BudgetUse = {
  layer: "profile",
  limit: "per_day_usd",
  used: 0.5,
  max: 5,
  on_limit: "ask",
};

/** A call to a model. */
function call(model: string) {
  const event = requestEvent("model.call");
  event.model!.request.model = model;
  return event;
}

Deno.test("costs are summed by model, with cached tokens and calls without a price", () =>
  withLedgerPath(async (path) => {
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const end = (model: string, response?: object, decision = "allow") => {
        const event = call(model);
        ledger.append({ event, decision: { decision, rule: { id: "r" } } });
        if (response) {
          ledger.end({
            event_id: event.common.event_id,
            response: { status: 200, tool_calls: [], ...response },
          });
        }
      };
      const tokens = { input_tokens: 10, cached_input_tokens: 4, output_tokens: 3 };
      end("m-1", { ...tokens, estimated_cost_micros: 42 });
      end("m-1", { ...tokens, estimated_cost_micros: 8 });
      end("m-2", tokens);
      end("m-2", { status: 500 });
      end("m-4", { ...tokens, estimated_cost_micros: 30, price_basis: "family" });
      end("m-4", { ...tokens, estimated_cost_micros: 10, price_basis: "dearest" });
      end("m-3", undefined, "block");
    }
    const models = await readCosts(path);
    assertEquals(
      models.map((
        { model, calls, cost_micros, unpriced_calls, estimated_calls, price_basis },
      ) => [model, calls, cost_micros, unpriced_calls, estimated_calls, price_basis]),
      [
        ["m-1", 2, 50, 0, 0, undefined],
        ["m-4", 2, 40, 0, 2, "dearest"],
        ["m-2", 2, 0, 1, 0, undefined],
      ],
    );
    const { input_tokens, cached_input_tokens, output_tokens } = models[0];
    assertEquals([input_tokens, cached_input_tokens, output_tokens], [20, 8, 6]);
    const text = formatCosts([{ vm: "dev", prices: PRICES_NOTE, models, budgets: [USE] }]);
    assertMatch(text, /dev +anthropic +m-1 +2 +20 +8 +6 +\$0\.0001/);
    assertMatch(text, /m-2 .* price not known/);
    assertMatch(text, /m-4 .* at most \$0\.0000, the dearest of anthropic/);
    assertMatch(text, /^sbx settings set network\.model_price_file FILE adds prices/m);
    assertMatch(
      text,
      /total about \$0\.0001, 2 calls at the price of another model, 1 call whose price is not known; .* of \d{4}-\d\d-\d\d: check them/,
    );
    assertMatch(text, /^dev: budget of the profile: 0\.5 of 5 usd today used$/m);
    const unknown = formatCosts([{ vm: "dev", prices: PRICES_NOTE, models: [models[2]], budgets: [] }]);
    assertMatch(unknown, /^total not known: no call has a known price;/m);
    const none = { vm: "dev", prices: PRICES_NOTE, models: [], budgets: [] };
    assertEquals(formatCosts([none]), "no model calls");
  }));

Deno.test("costs are summed by day of UTC and model, from a moment on", () =>
  withLedgerPath(async (path) => {
    const NOON = Date.UTC(2026, 10, 29, 12);
    const HOUR = 3600_000;
    {
      await using ledger = await Ledger.open(path, { sessionId: SESSION });
      const calls = [["m-1", NOON, 10], ["m-2", NOON, 30], ["m-1", NOON + 11 * HOUR, 5], [
        "m-1",
        NOON + 12 * HOUR,
        7,
      ]] as const;
      for (const [model, at, estimated_cost_micros] of calls) {
        const event = call(model);
        event.common.timestamp_unix_ms = at;
        ledger.append({ event, decision: { decision: "allow", rule: { id: "r" } } });
        const response = {
          status: 200,
          tool_calls: [],
          input_tokens: 1,
          output_tokens: 1,
          estimated_cost_micros,
        };
        ledger.end({ event_id: event.common.event_id, response });
      }
    }
    const days = await readCostsByDay(path);
    assertEquals(days.map(({ day, model, calls, cost_micros }) => [day, model, calls, cost_micros]), [
      ["2026-11-29", "m-2", 1, 30],
      ["2026-11-29", "m-1", 2, 15],
      ["2026-11-30", "m-1", 1, 7],
    ]);
    const late = await readCostsByDay(path, NOON + 1);
    assertEquals(late.map(({ day, calls, cost_micros }) => [day, calls, cost_micros]), [
      ["2026-11-29", 1, 5],
      ["2026-11-30", 1, 7],
    ]);
    assertEquals((await readCosts(path)).map(({ model, cost_micros }) => [model, cost_micros]), [
      ["m-2", 30],
      ["m-1", 22],
    ]);
    const text = formatDays({ days, prices: PRICES_NOTE });
    assertMatch(text, /^DAY \(UTC\) +PROVIDER/);
    assertMatch(text, /^2026-11-30 +anthropic +m-1 +1 +1 +0 +1 +\$0\.0000$/m);
    assertMatch(text, /^total \$0\.0001; /m);
    assertEquals(formatDays({ days: [], prices: PRICES_NOTE }), "no model calls");
  }));
