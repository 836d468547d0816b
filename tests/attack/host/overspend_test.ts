/** Ways past a budget of tokens: answers that are broken off, late, in batches or without counts. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { BudgetTerms } from "../../../lib/policy/budget/schema.ts";
import { talk, until } from "../../helper/model_socket.ts";
import { eventually } from "../../helper/sbx.ts";
import {
  type Answer,
  ANTHROPIC,
  anthropicCall,
  chatCall,
  chunk,
  cost,
  event,
  GOOGLE,
  json,
  LAST,
  OPENAI,
  Spender,
  SSE_HEAD,
} from "../../helper/spender.ts";

Deno.test("a client that hangs up before the head of the answer spends what its request could", async (t) => {
  await t.step("the answer never comes", async () => {
    await using spender = await Spender.open(ANTHROPIC, { tokens: 10_000 }, () => undefined, {
      timeouts: { linger: 1 },
    });
    for (let at = 1; at <= 3; at++) {
      const client = await spender.send("/v1/messages", anthropicCall(4000));
      await eventually("the upstream has it", () => spender.received.length === at, 20);
      client.close();
      await spender.net.idle();
    }
    assert(spender.used >= 12_000, `${spender.used}`);
    assertEquals((await spender.ask("/v1/messages", anthropicCall(4000))).status, 403);
    assertEquals(spender.received.length, 3);
  });
  await t.step("the answer comes later: its counts are known", async () => {
    const going = Promise.withResolvers<void>();
    await using spender = await Spender.open(ANTHROPIC, { tokens: 10_000 }, async (_, client) => {
      await going.promise;
      await client.send(
        json({ type: "message", usage: { input_tokens: 9, output_tokens: 41 }, content: [] }),
      );
    });
    const client = await spender.send("/v1/messages", anthropicCall(4000));
    await eventually("the upstream has it", () => spender.received.length === 1, 20);
    client.close();
    going.resolve();
    await spender.net.idle();
    assertEquals(spender.used, 50);
  });
});

Deno.test("a client that hangs up within a stream spends what the provider counts, or what its request could", async (t) => {
  const start = event({ type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } });
  for (
    const [name, ends, expected] of [["the stream ends", true, 709], ["it does not", false, 4000]] as const
  ) {
    await t.step(name, async () => {
      const going = Promise.withResolvers<void>();
      await using spender = await Spender.open(ANTHROPIC, { tokens: 10_000 }, async (_, client) => {
        await client.send(SSE_HEAD + start);
        await going.promise;
        if (!ends) return await new Promise<void>(() => {});
        for (let at = 0; at < 50; at++) {
          await client.send(
            event({ type: "content_block_delta", delta: { type: "text_delta", text: "word " } }),
          );
        }
        await client.send(event({ type: "message_delta", usage: { output_tokens: 700 } }) + LAST);
      }, ends ? {} : { timeouts: { linger: 1 } });
      const client = await spender.send("/v1/messages", anthropicCall(4000, { stream: true }));
      await client.until("message_start");
      client.close();
      going.resolve();
      await spender.net.idle();
      assert(ends ? spender.used === expected : spender.used >= expected, `${spender.used}`);
    });
  }
});

Deno.test("an answer without a length that ends early counts what its request could", async (t) => {
  const head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\nconnection: close\r\n\r\n";
  const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
  const starts = data({ type: "message_start", message: { usage: { input_tokens: 9, output_tokens: 1 } } });
  const cases: [name: string, host: string, path: string, answer: string][] = [
    ["after its start", ANTHROPIC, "/v1/messages", starts],
    [
      "with an error",
      ANTHROPIC,
      "/v1/messages",
      starts + data({ type: "error", error: { type: "overloaded_error" } }),
    ],
    [
      "after its first words",
      OPENAI,
      "/v1/chat/completions",
      data({ choices: [{ delta: { content: "hi" } }] }),
    ],
  ];
  for (const [name, host, path, answer] of cases) {
    await t.step(name, async () => {
      await using spender = await Spender.open(host, { tokens: 10_000 }, async (_, client) => {
        await client.send(head + answer);
        client.close();
      });
      await spender.ask(path, anthropicCall(4000, { stream: true }));
      await spender.net.idle();
      assert(spender.used >= 4000, `${spender.used}`);
    });
  }
});

Deno.test("a WebSocket that is closed within a response spends what its call could", () =>
  talk(
    "/v1/responses",
    () => [{ type: "response.created", response: { id: "resp_1", status: "in_progress" } }],
    async (guest, net) => {
      net.gate.useBudget({
        terms: { profile: BudgetTerms.parse({ tokens: 10_000, on_limit: "block" }) },
        cost,
      });
      const call = { type: "response.create", model: "gpt-5.2", input: "hi", max_output_tokens: 20_000 };
      guest.socket.send(JSON.stringify(call));
      await until(guest, "response.created");
      guest.socket.close();
      await net.idle();
      const [{ used }] = net.gate.budgetUses();
      assert(used >= 20_000 && used < 21_000, `${used}`);
    },
  ));

Deno.test("a batch of 200 requests reserves 200 limits, until its results are counted", async () => {
  const requests = Array.from({ length: 200 }, (_, at) => ({
    custom_id: `${at}`,
    params: anthropicCall(1000),
  }));
  const results = requests.map(({ custom_id }) =>
    JSON.stringify({
      custom_id,
      result: {
        type: "succeeded",
        message: { type: "message", usage: { input_tokens: 5, output_tokens: 20 } },
      },
    })
  ).join("\n");
  await using spender = await Spender.open(
    ANTHROPIC,
    { tokens: 100_000 },
    ({ line }) =>
      line.includes("/results")
        ? `HTTP/1.1 200 OK\r\ncontent-type: application/x-jsonl\r\ncontent-length: ${results.length}\r\n\r\n${results}`
        : json({ id: "msgbatch_1", type: "message_batch", processing_status: "in_progress" }),
  );
  assertEquals((await spender.ask("/v1/messages/batches", { requests })).status, 200);
  assert(spender.used >= 200_000, `${spender.used}`);
  assertEquals((await spender.ask("/v1/messages", anthropicCall(10))).status, 403);
  assertEquals((await spender.ask("/v1/messages/batches/msgbatch_1/results", undefined)).status, 200);
  assertEquals(spender.used, 200 * 25);
});

Deno.test("a batch of Gemini reserves each of its requests", async () => {
  const body = {
    batch: {
      input_config: {
        requests: {
          requests: Array.from({ length: 20 }, () => ({
            request: { contents: [{ parts: [{ text: "hi" }] }], generationConfig: { maxOutputTokens: 900 } },
          })),
        },
      },
    },
  };
  await using spender = await Spender.open(
    GOOGLE,
    { tokens: 10_000 },
    () => json({ name: "batches/1", metadata: {} }),
  );
  await spender.ask("/v1beta/models/gemini-2.5-flash:batchGenerateContent", body);
  assert(spender.used >= 18_000, `${spender.used}`);
});

Deno.test("a stream without counts spends its text", async () => {
  const delta = event({ choices: [{ index: 0, delta: { content: "x ".repeat(500) } }] });
  await using spender = await Spender.open(OPENAI, { tokens: 150_000 }, async (_, client) => {
    await client.send(SSE_HEAD);
    for (let at = 0; at < 240; at++) await client.send(delta);
    await client.send(event({ choices: [{ index: 0, delta: {}, finish_reason: "stop" }] }) + LAST);
  });
  await spender.ask("/v1/chat/completions", chatCall({ stream: true }));
  assert(spender.used >= 120_000, `${spender.used}`);
});

Deno.test("a provider is asked for the counts of a stream, and the client sees what it asked for", async (t) => {
  const answer: Answer = async ({ body }, client) => {
    const { stream_options } = JSON.parse(body);
    await client.send(SSE_HEAD + event({ choices: [{ index: 0, delta: { content: "hi" } }], usage: null }));
    if (stream_options?.include_usage) {
      // Its event comes in pieces.
      const counts = `data: ${
        JSON.stringify({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 93 } })
      }\n\n`;
      for (const piece of [counts.slice(0, 9), counts.slice(9)]) await client.send(chunk(piece));
    }
    await client.send(chunk("data: [DONE]\n\n") + LAST);
  };
  for (const asks of [false, true]) {
    await t.step(`the client ${asks ? "asks" : "does not ask"}`, async () => {
      await using spender = await Spender.open(OPENAI, { tokens: 10_000 }, answer);
      // A number that JavaScript has not.
      const text = JSON.stringify(chatCall({ stream: true, max_tokens: 500 })).slice(0, -1) +
        `,"seed":12345678901234567890${asks ? ',"stream_options":{"include_usage":true}' : ""}}`;
      const { body } = await spender.ask("/v1/chat/completions", text);
      assertEquals(spender.used, 100);
      assertStringIncludes(spender.received[0].body, "12345678901234567890");
      assertEquals(body.includes("prompt_tokens"), asks);
      assert(body.includes('"hi"') && body.endsWith("data: [DONE]\n\n"), body);
    });
  }
  await t.step("the stream has a length", async () => {
    const data = (value: unknown) => `data: ${JSON.stringify(value)}\n\n`;
    const hi = data({ choices: [{ index: 0, delta: { content: "hi" } }] });
    const text = hi + data({ choices: [], usage: { prompt_tokens: 7, completion_tokens: 93 } });
    await using spender = await Spender.open(
      OPENAI,
      { tokens: 10_000 },
      () =>
        `HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ncontent-length: ${text.length}\r\n\r\n${text}`,
    );
    const { body } = await spender.ask("/v1/chat/completions", chatCall({ stream: true }));
    assertEquals([body, spender.used], [hi, 100]);
  });
});

Deno.test("a response in the background is reserved until it is fetched", async () => {
  let status = "queued";
  await using spender = await Spender.open(OPENAI, { tokens: 10_000 }, () =>
    json({
      object: "response",
      id: "resp_1",
      status,
      usage: status === "completed" ? { input_tokens: 11, output_tokens: 89 } : null,
    }));
  const call = { model: "gpt-5", input: "hi", background: true, max_output_tokens: 20_000 };
  assertEquals((await spender.ask("/v1/responses", call)).status, 200);
  assert(spender.used >= 20_000, `${spender.used}`);
  assertEquals((await spender.ask("/v1/responses", call)).status, 403);
  await spender.ask("/v1/responses/resp_1", undefined);
  assert(spender.used >= 20_000, `${spender.used}`);
  status = "completed";
  // An encoded answer could not be counted.
  const client = await spender.send("/v1/responses/resp_1", undefined, ["Accept-Encoding: gzip"]);
  await client.answer();
  client.close();
  assert(!/gzip/.test(spender.received.at(-1)!.head));
  assertEquals(spender.used, 100);
  await spender.ask("/v1/responses/resp_1", undefined);
  assertEquals(spender.used, 100);
});

Deno.test("64 requests at once that all hang up overspend by one request's limit", async () => {
  await using spender = await Spender.open(ANTHROPIC, { tokens: 20_000 }, () => undefined, {
    timeouts: { linger: 1 },
  });
  const body = anthropicCall(5000);
  const clients = await Promise.all(Array.from({ length: 64 }, () => spender.send("/v1/messages", body)));
  // Those that hold the reservations hang up, so that others follow.
  const answers = clients.map((client) => client.answer().catch(() => undefined));
  await eventually("some are at the upstream", () => spender.received.length >= 3, 20);
  for (const client of clients) client.close();
  await Promise.all(answers);
  await spender.net.idle();
  const limit = 5000 + JSON.stringify(body).length;
  assert(spender.used <= 20_000 + limit, `${spender.used}`);
  assert(spender.received.length <= Math.ceil(20_000 / limit) + 1, `${spender.received.length}`);
});
