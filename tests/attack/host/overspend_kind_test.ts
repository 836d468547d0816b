/** Requests to models that a budget cannot count, or that ask for more than they seem to. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { eventually } from "../../helper/sbx.ts";
import { ANTHROPIC, anthropicCall, chatCall, GOOGLE, json, OPENAI, Spender } from "../../helper/spender.ts";

Deno.test("what cannot be counted is refused with the reason, unless the budget allows it", async (t) => {
  const repeated = JSON.stringify(chatCall({ max_tokens: 5 })).replace("{", '{"max_tokens":100000,');
  const cases: [name: string, host: string, path: string, body: object | string, reason: string][] = [
    ["a batch by a file", OPENAI, "/v1/batches", {
      input_file_id: "file-1",
      endpoint: "/v1/chat/completions",
      completion_window: "24h",
    }, "by a file"],
    ["a batch by a file, with a decoy", OPENAI, "/v1/batches", {
      input_file_id: "file-1",
      requests: [chatCall({ max_tokens: 1 })],
    }, "by a file"],
    ["a batch of Gemini by a file", GOOGLE, "/v1beta/models/gemini-2.5-flash:batchGenerateContent", {
      batch: { input_config: { file_name: "files/1" } },
    }, "by a file"],
    ["two limits", OPENAI, "/v1/chat/completions", repeated, "repeats the key"],
    ["two limits, elsewhere", OPENAI, "/v1/somewhere", repeated, "repeats the key"],
    ["speech", OPENAI, "/v1/audio/speech", { model: "gpt-4o-mini-tts", input: "hi", voice: "x" }, "sound"],
    ["a cache by the hour", GOOGLE, "/v1beta/cachedContents", {
      model: "models/gemini-2.5-pro",
      contents: [],
    }, "by the hour"],
    ["a training", OPENAI, "/v1/fine_tuning/jobs", { model: "gpt-5", training_file: "f" }, "billed later"],
    ["a run of an assistant", OPENAI, "/v1/threads/t/runs", { assistant_id: "a" }, "billed later"],
  ];
  for (const [name, host, path, body, reason] of cases) {
    await t.step(name, async () => {
      await using spender = await Spender.open(
        host,
        { tokens: 10_000_000, on_limit: "ask" },
        () => json({ id: "x" }),
      );
      const answer = await spender.ask(path, body);
      assertEquals([answer.status, spender.received.length], [403, 0]);
      assertStringIncludes(answer.body, reason);
    });
  }
  await t.step("allowed by the budget", async () => {
    await using spender = await Spender.open(
      OPENAI,
      { tokens: 10_000_000, uncounted: "allow" },
      () => json({ id: "b" }),
    );
    assertEquals(
      (await spender.ask("/v1/batches", { input_file_id: "f", endpoint: "/v1/responses" })).status,
      200,
    );
    assert(spender.used > 100_000);
  });
  await t.step("a tier with prices of its own, in US dollars", async () => {
    await using spender = await Spender.open(OPENAI, { usd: 100 }, () => json({ id: "x" }));
    const { status, body } = await spender.ask(
      "/v1/chat/completions",
      chatCall({ service_tier: "priority" }),
    );
    assertEquals([status, spender.received.length], [403, 0]);
    assertStringIncludes(body, "priority");
  });
  await t.step("an unread WebSocket", async () => {
    await using spender = await Spender.open(OPENAI, { tokens: 10_000 }, () => json({}));
    const client = await spender.send("/v1/other", undefined, [
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
    ]);
    const answer = await client.answer();
    assertEquals([answer.status, spender.received.length], [403, 0]);
    assertStringIncludes(answer.body, "a budget counts models");
    client.close();
  });
});

Deno.test("a request reserves every answer that it asks for, and input that it only names", async (t) => {
  const cases: [name: string, path: string, body: object, least: number][] = [
    ["n", "/v1/chat/completions", chatCall({ max_tokens: 100, n: 50 }), 5000],
    ["n, as a text", "/v1/chat/completions", chatCall({ max_tokens: 100, n: "50" }), 5000],
    ["prompts", "/v1/completions", { model: "m", max_tokens: 100, prompt: Array(50).fill("x") }, 5000],
    ["a limit of another API", "/v1/responses", { model: "m", input: "x", max_tokens: 1 }, 100_000],
    ["a limit in another case", "/v1/chat/completions", chatCall({ max_tokens: 1, MAX_TOKENS: 9 }), 100_000],
    ["no number", "/v1/chat/completions", chatCall({ max_tokens: "90000" }), 100_000],
    ["a conversation", "/v1/responses", {
      model: "m",
      input: "x",
      max_output_tokens: 1,
      previous_response_id: "resp_0",
    }, 1_000_000],
    ["a search of the provider", "/v1/responses", {
      model: "m",
      input: "x",
      max_output_tokens: 1,
      tools: [{ type: "web_search" }],
    }, 1_000_000],
    ["an item that is stored", "/v1/responses", {
      model: "m",
      input: [{ type: "item_reference", id: "msg_0" }],
      max_output_tokens: 1,
    }, 1_000_000],
    ["a prompt that is stored", "/v1/responses", {
      model: "m",
      prompt: { id: "pmpt_0" },
      max_output_tokens: 1,
    }, 1_000_000],
    ...["web_search_options", "search_parameters", "data_sources", "plugins"].map((
      key,
    ): [string, string, object, number] => [
      key,
      "/v1/chat/completions",
      chatCall({ max_tokens: 1, [key]: {} }),
      1_000_000,
    ]),
  ];
  for (const [name, path, body, least] of cases) {
    await t.step(name, async () => {
      await using spender = await Spender.open(OPENAI, { tokens: 1e9 }, () => undefined, {
        timeouts: { linger: 1 },
      });
      const client = await spender.send(path, body);
      await eventually("the upstream has it", () => spender.received.length === 1, 20);
      client.close();
      await spender.net.idle();
      assert(spender.used >= least, `${spender.used}`);
    });
  }
  await t.step("names in a tool's schema and in a tool call are no input", async () => {
    await using spender = await Spender.open(ANTHROPIC, { tokens: 1e9 }, () => undefined, {
      timeouts: { linger: 1 },
    });
    const schema = { type: "object", properties: { url: { type: "string", enum: ["a"] }, file_id: {} } };
    const client = await spender.send(
      "/v1/messages",
      anthropicCall(10, {
        tools: [{ name: "fetch", input_schema: schema }],
        messages: [
          { role: "user", content: "hi" },
          {
            role: "assistant",
            content: [{ type: "tool_use", id: "1", name: "fetch", input: { url: "https://a" } }],
          },
          { role: "user", content: [{ type: "tool_result", tool_use_id: "1", content: "x" }] },
        ],
      }),
    );
    await eventually("the upstream has it", () => spender.received.length === 1, 20);
    client.close();
    await spender.net.idle();
    assert(spender.used < 1000, `${spender.used}`);
  });
});

Deno.test("a request that has Google leave the counts out of its answer is not counted by them", async (t) => {
  const call = { contents: [{ parts: [{ text: "hi" }] }], generationConfig: { maxOutputTokens: 900 } };
  const path = "/v1beta/models/gemini-2.5-flash:generateContent";
  const masks: [string, string[]][] = [
    [`${path}?fields=candidates`, []],
    [`${path}?a=b&%24f%69elds=candidates,usageMetadata.candidatesTokenCount`, []],
    [path, ["X-Goog-FieldMask: candidates"]],
  ];
  for (const [target, more] of masks) {
    await t.step(`${target} ${more}`, async () => {
      await using spender = await Spender.open(
        GOOGLE,
        { tokens: 10_000 },
        () => json({ candidates: [{ finishReason: "STOP", content: { parts: [{ text: "x" }] } }] }),
      );
      const client = await spender.send(target, call, more);
      const { status, body } = await client.answer();
      client.close();
      assertEquals([status, spender.received.length], [403, 0]);
      assertStringIncludes(body, "a part of its answer");
    });
  }
  await t.step("the results of a batch", async () => {
    const batch = { batch: { input_config: { requests: { requests: [{ request: call }] } } } };
    const inlined = { response: { inlinedResponses: { inlinedResponses: [{ response: {} }] } } };
    await using spender = await Spender.open(
      GOOGLE,
      { tokens: 10_000 },
      ({ line }) => json(line.startsWith("GET") ? { name: "batches/1", ...inlined } : { name: "batches/1" }),
    );
    await spender.ask("/v1beta/models/gemini-2.5-flash:batchGenerateContent", batch);
    const { used } = spender;
    assertEquals(
      (await spender.ask("/v1beta/batches/1?fields=response.inlinedResponses.foo", undefined)).status,
      200,
    );
    assertEquals([spender.used, used >= 900], [used, true]);
  });
});
