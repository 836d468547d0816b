/** Costs of model calls (docs/design/contracts/05-policy.md §5). */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { BUILT_IN_PRICES, loadPrices } from "../../../../lib/network/model/mod.ts";
import TABLE from "../../../../lib/network/model/prices.json" with { type: "json" };
import { encode, identity, matchCall } from "../../../helper/model_call.ts";

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

Deno.test("costs: a model's own price, else its family's, else the dearest of its provider", () => {
  const usage = { input: 1000, output: 100 };
  const cases: [provider: string, model: string, cost: number | undefined, basis?: string][] = [
    ["anthropic", "claude-sonnet-4-5", 4500],
    ["anthropic", "claude-sonnet-4-20250514", 4500],
    ["anthropic", "claude-3-5-haiku-latest", 1200],
    ["anthropic", "claude-opus-4-1-20250805", 22500],
    ["openai", "gpt-4o-mini-2024-07-18", 210],
    ["google", "gemini-2.0-flash-001", 140],
    // Newer versions: the price of the one before.
    ["anthropic", "claude-sonnet-9", 3000, "family"],
    ["anthropic", "claude-opus-4-9-20260801", 7500, "family"],
    ["openai", "gpt-6.3-sol", 3000, "family"],
    ["openai", "gpt-9", 6000, "family"],
    ["google", "gemini-4-flash-preview", 1125, "family"],
    // Older than all that are offered: the dearest of the family.
    ["anthropic", "claude-sonnet-1", 4500, "family"],
    ["google", "claude-sonnet-4-5@20250929", 4500, "family"],
    // No source has it.
    ["openai", "gpt-5.1-codex-max", 2250, "unchecked"],
    // Of no family.
    ["anthropic", "claude-sonnet-4-5-turbo", 15000, "dearest"],
    ["anthropic", "gpt-not-theirs", 15000, "dearest"],
    ["openai", "codex-auto-review", 48000, "dearest"],
    ["openrouter", "gpt-4o", undefined],
    ["__proto__", "x", undefined],
  ];
  for (const [provider, model, micros, basis] of cases) {
    const expected = micros === undefined ? undefined : { micros, ...(basis && { basis }) };
    assertEquals(BUILT_IN_PRICES.cost(provider, model, usage) as unknown, expected, model);
  }
  const tiers = ["standard", "priority", "flex", "batch", "fast"].map((tier) =>
    BUILT_IN_PRICES.cost("openai", "gpt-4o", usage, tier)?.micros
  );
  assertEquals(tiers, [3500, undefined, undefined, undefined, undefined]);
  const long = BUILT_IN_PRICES.cost("anthropic", "claude-haiku-5-5", { input: 90_000, cacheRead: 20_000 });
  assertEquals(long, { micros: 46_000 });
});

Deno.test("each built-in price names where it was read and when, and those that no source has are marked", () => {
  const day = /^20\d\d-\d\d-\d\d$/;
  const sources: Record<string, { url?: string; as_of: string; read_from: string; checked?: string }> =
    TABLE.sources;
  for (const { provider, model, source } of TABLE.models) {
    const found = sources[source];
    assert(found && day.test(found.as_of) && found.read_from !== "", `${model}: ${source}`);
    assertEquals(found.checked !== undefined, URL.canParse(found.url ?? ""), source);
    if (found.checked !== undefined) assert(day.test(found.checked) && found.checked <= TABLE.as_of, source);
    const basis = found.checked === undefined ? "unchecked" : undefined;
    assertEquals(BUILT_IN_PRICES.cost(provider, model, { input: 1 })?.basis, basis, model);
  }
  assertEquals(
    Object.keys(sources).filter((each) => !TABLE.models.some(({ source }) => source === each)),
    [],
  );
});

Deno.test("costs: a price file adds to the table, and wins", async () => {
  const usage = { input: 1000, output: 100 };
  const path = await Deno.makeTempFile();
  try {
    const table = {
      schema: "sbx.model-prices.v1",
      models: [
        { provider: "x", model: "y", input: 1, output: 2 },
        { provider: "openai", model: "gpt-6.1-sol", input: 1, output: 1 },
      ],
    };
    await Deno.writeTextFile(path, JSON.stringify(table));
    const prices = await loadPrices(path);
    assertEquals(
      [prices.cost("x", "y", usage), prices.cost("openai", "gpt-6.1-sol", usage)],
      [{ micros: 1200 }, { micros: 1100 }],
    );
    assertEquals(prices.cost("openai", "gpt-4o", usage), { micros: 3500 });
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
