/** Costs of model calls (docs/contracts.md §5). */
import { assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../lib/base/error/mod.ts";
import { BUILT_IN_PRICES, loadPrices } from "../../../lib/model/mod.ts";
import { encode, identity, matchCall } from "../../helper/model_call.ts";

Deno.test("a call at a service tier with prices of its own has no cost", () => {
  const answers: [host: string, path: string, response: object][] = [
    ["api.anthropic.com", "/v1/messages", {
      type: "message",
      usage: { input_tokens: 1, service_tier: "priority" },
    }],
    ["api.anthropic.com", "/v1/messages", { type: "message", usage: { input_tokens: 1, speed: "fast" } }],
    ["api.openai.com", "/v1/chat/completions", {
      service_tier: "flex",
      choices: [],
      usage: { prompt_tokens: 1 },
    }],
    ["api.openai.com", "/v1/responses", {
      object: "response",
      service_tier: "priority",
      usage: { input_tokens: 1 },
    }],
  ];
  for (const [host, path, response] of answers) {
    const call = matchCall({ host, path })!;
    const model = host.includes("openai") ? "gpt-4o" : "claude-sonnet-4-5";
    call.request(encode(JSON.stringify({ model, messages: [], input: "x" })), undefined, identity);
    call.head(200, [["content-type", "application/json"]]);
    call.chunk(encode(JSON.stringify(response)));
    const { input_tokens, estimated_cost_micros } = call.end()!;
    assertEquals([input_tokens, estimated_cost_micros], [1, undefined], path);
  }
});

Deno.test("costs: only for models in the table, which can be replaced", async () => {
  const usage = { input: 1000, output: 100 };
  const cases: [provider: string, model: string, cost: number | undefined][] = [
    ["anthropic", "claude-sonnet-4-5", 4500],
    ["anthropic", "claude-sonnet-4-20250514", 4500],
    ["anthropic", "claude-3-5-haiku-latest", 1200],
    ["anthropic", "claude-sonnet-9", undefined],
    ["anthropic", "claude-opus-4-8", undefined],
    ["anthropic", "claude-opus-4-8-20260801", undefined],
    ["anthropic", "claude-opus-4-100", undefined],
    ["anthropic", "claude-opus-4-1-20250805", 22500],
    ["anthropic", "claude-sonnet-4-5-turbo", undefined],
    ["openai", "gpt-4o-mini-2024-07-18", 210],
    ["openai", "gpt-4o-audio-preview", undefined],
    ["google", "gemini-2.0-flash-001", 140],
    ["openrouter", "gpt-4o", undefined],
    ["__proto__", "x", undefined],
  ];
  for (const [provider, model, cost] of cases) {
    assertEquals(BUILT_IN_PRICES.cost(provider, model, usage), cost, model);
  }
  const tiers = ["standard", "priority", "flex", "batch", "fast"].map((tier) =>
    BUILT_IN_PRICES.cost("openai", "gpt-4o", usage, tier)
  );
  assertEquals(tiers, [3500, undefined, undefined, undefined, undefined]);
  const path = await Deno.makeTempFile();
  try {
    const table = {
      schema: "sbx.model-prices.v1",
      models: [{ provider: "x", model: "y", input: 1, output: 2 }],
    };
    await Deno.writeTextFile(path, JSON.stringify(table));
    assertEquals((await loadPrices(path)).cost("x", "y", usage), 1200);
    for (
      const invalid of [
        "{",
        "{}",
        '{"schema":"sbx.model-prices.v1","models":[{"provider":"x","model":"y","input":-1,"output":0}]}',
      ]
    ) {
      await Deno.writeTextFile(path, invalid);
      assertEquals((await assertRejects(() => loadPrices(path), SbxError)).code, "model.prices.invalid");
    }
  } finally {
    await Deno.remove(path);
  }
  assertEquals((await assertRejects(() => loadPrices(path), SbxError)).code, "model.prices.not_found");
});
