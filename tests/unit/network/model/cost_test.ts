/** Costs of model calls (docs/design/contracts/05-policy.md §5). */
import { assert, assertEquals, assertRejects } from "@std/assert";
import { SbxError } from "../../../../lib/base/error/mod.ts";
import { BUILT_IN_PRICES, loadPrices } from "../../../../lib/network/model/mod.ts";
import TABLE from "../../../../lib/network/model/prices.json" with { type: "json" };
import { LOCKED_PROFILES } from "../../../../lib/config/profile/builtin.ts";
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

/**
 * Models that the pinned agents call unless they are asked for others, read from their packages: Claude Code's model
 * catalogue, Codex's `models.json`, opencode's table of Anthropic's models, Gemini CLI's `config/models.ts`. A new
 * version of an agent needs a look at its models.
 */
const AGENT_MODELS: Record<string, { package: string; provider: string; models: string[] }> = {
  claude: {
    package: "@anthropic-ai/claude-code@2.1.330",
    provider: "anthropic",
    models: [
      ..."claude-fable-5-2 claude-opus-5-5 claude-sonnet-5-5 claude-haiku-5-5".split(" "),
      ..."claude-fable-5-1 claude-fable-5 claude-opus-5 claude-opus-4-8 claude-opus-4-7".split(" "),
      ..."claude-opus-4-6 claude-opus-4-5-20251101 claude-sonnet-5 claude-sonnet-4-6".split(" "),
      ..."claude-sonnet-4-5-20250929 claude-haiku-4-5-20251001".split(" "),
    ],
  },
  codex: {
    package: "@openai/codex@0.169.0",
    provider: "openai",
    models: [
      ..."gpt-6.1-sol gpt-6.1-terra gpt-6-astra gpt-6-sol gpt-6-luna".split(" "),
      ..."gpt-5.6-sol gpt-5.6-terra gpt-5.6-luna gpt-5.5".split(" "),
      ..."gpt-daybreak-blue-latest gpt-daybreak-red-latest".split(" "),
    ],
  },
  opencode: {
    package: "opencode-linux-{cpu}@1.18.33",
    provider: "anthropic",
    models: [
      ..."claude-opus-5-5 claude-opus-5 claude-sonnet-5 claude-haiku-4-5 claude-fable-5-1".split(" "),
      ..."claude-opus-4-8 claude-sonnet-4-6 claude-sonnet-4-5 claude-opus-4-5".split(" "),
    ],
  },
  gemini: {
    package: "@google/gemini-cli@0.61.0",
    provider: "google",
    models: [
      ..."gemini-3.1-pro-preview gemini-3.1-pro-preview-customtools gemini-3-pro-preview".split(" "),
      ..."gemini-3-flash-preview gemini-3.8-flash gemini-3.5-flash gemini-3.5-flash-lite".split(" "),
      ..."gemini-3.1-flash-lite gemini-2.5-pro gemini-2.5-flash gemini-2.5-flash-lite".split(" "),
      "gemini-embedding-001",
    ],
  },
};

Deno.test("costs: every model that a pinned agent starts with has a price of its own", () => {
  // Models of the host have no price.
  const agents = [...LOCKED_PROFILES.keys()].filter((id) => id !== "locked" && id !== "opencode-local");
  assertEquals(Object.keys(AGENT_MODELS).sort(), agents.sort());
  for (const [id, { package: name, provider, models }] of Object.entries(AGENT_MODELS)) {
    assert(LOCKED_PROFILES.get(id)!.includes(`"${name}"`), `${id} is another version than ${name}`);
    for (const model of models) {
      const cost = BUILT_IN_PRICES.cost(provider, model, { input: 1000, output: 1000 });
      assert(cost && cost.micros > 0 && cost.basis === undefined, `${id}: ${model} has no price`);
    }
  }
});
