/** Ways past a budget: each spends at most one request's limit too much, at real TLS upstreams on loopback. */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { type Cost, DaySpending } from "../../../lib/budget/mod.ts";
import { BudgetTerms } from "../../../lib/budget/schema.ts";
import { DnsService } from "../../../lib/dns/mod.ts";
import { ModelReader } from "../../../lib/model/mod.ts";
import { TestGate } from "../../helper/gate.ts";
import { TestNet, type TestNetOptions } from "../../helper/net.ts";
import { type RawClient, type RawUpstream, rawUpstream } from "../../helper/net_client.ts";
import { eventually } from "../../helper/sbx.ts";

const ANTHROPIC = "api.anthropic.com";
const OPENAI = "api.openai.com";
const GOOGLE = "generativelanguage.googleapis.com";

/** A dollar for a million tokens of either kind. */
const cost: Cost = (_, __, { input = 0, output = 0 }) => input + output;

/** A request as the upstream got it. */
interface Received {
  line: string;
  head: string;
  body: string;
}

/** Answers one request; `undefined`: the connection stays open without a word. */
type Answer = (request: Received, client: RawClient) => Promise<void> | string | undefined;

/** A guest under a budget, with one provider behind TLS. */
class Spender implements AsyncDisposable {
  readonly received: Received[] = [];

  private constructor(readonly net: TestNet, readonly host: string, readonly upstream: RawUpstream) {}

  static async open(
    host: string,
    terms: object,
    answer: Answer,
    options: Partial<TestNetOptions> = {},
  ): Promise<Spender> {
    const net = await TestNet.open({
      models: new ModelReader(),
      target: () => spender.upstream.target,
      ...options,
    });
    net.gate.useBudget({ terms: { profile: BudgetTerms.parse({ on_limit: "block", ...terms }) }, cost });
    const upstream = rawUpstream(async (client) => {
      while (true) {
        const head = await client.until("\r\n\r\n");
        const length = Number(/content-length: *(\d+)/i.exec(head)?.[1] ?? 0);
        const request = { line: head.split("\r\n")[0], head, body: await client.take(length) };
        spender.received.push(request);
        const sent = answer(request, client);
        if (typeof sent === "string") await client.send(sent);
        else await sent;
      }
    }, await net.leaf(host));
    const spender: Spender = new Spender(net, host, upstream);
    return spender;
  }

  /** Sends a request on a connection of its own. */
  async send(path: string, body: object | string | undefined, more: string[] = []): Promise<RawClient> {
    const client = await this.net.tls(this.host);
    const text = body === undefined ? "" : typeof body === "string" ? body : JSON.stringify(body);
    const length = new TextEncoder().encode(text).length;
    const fields = body === undefined ? [] : ["Content-Type: application/json", `Content-Length: ${length}`];
    const method = body === undefined ? "GET" : "POST";
    await client.send(
      [`${method} ${path} HTTP/1.1`, `Host: ${this.host}`, ...fields, ...more, "", text].join("\r\n"),
    );
    return client;
  }

  async ask(path: string, body: object | string | undefined) {
    const client = await this.send(path, body);
    const answer = await client.answer();
    client.close();
    return answer;
  }

  /** Used of the first limit. */
  get used(): number {
    return this.net.gate.budgetUses()[0].used;
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.upstream.close();
    for (const conn of this.upstream.conns) {
      try {
        conn.close();
      } catch {
        // closed already
      }
    }
    await this.net[Symbol.asyncDispose]();
  }
}

const json = (value: unknown, status = 200) => {
  const text = JSON.stringify(value);
  return `HTTP/1.1 ${status} OK\r\ncontent-type: application/json\r\ncontent-length: ${
    new TextEncoder().encode(text).length
  }\r\n\r\n${text}`;
};
const SSE_HEAD = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n";
const chunk = (text: string) => `${new TextEncoder().encode(text).length.toString(16)}\r\n${text}\r\n`;
const event = (value: unknown) => chunk(`data: ${JSON.stringify(value)}\n\n`);
const LAST = "0\r\n\r\n";

const anthropicCall = (max_tokens: number, more: object = {}) => ({
  model: "claude-haiku-4-5",
  max_tokens,
  messages: [{ role: "user", content: "hi" }],
  ...more,
});
const chatCall = (more: object = {}) => ({
  model: "gpt-5",
  messages: [{ role: "user", content: "hi" }],
  ...more,
});

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
  // The client would get it encoded, which nobody here could count.
  const client = await spender.send("/v1/responses/resp_1", undefined, ["Accept-Encoding: gzip"]);
  await client.answer();
  client.close();
  assert(!/gzip/.test(spender.received.at(-1)!.head));
  assertEquals(spender.used, 100);
  await spender.ask("/v1/responses/resp_1", undefined);
  assertEquals(spender.used, 100);
});

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

Deno.test("a call that a person allowed at the limit counts as well", async () => {
  const gate = new TestGate();
  gate.useBudget({ terms: { profile: BudgetTerms.parse({ requests: 1 }) }, cost });
  const request = {
    common: { event_type: "dns.query" as const, source_engine: "network" as const },
    dns: { request: { qname: "a.example", qtype: "A", transport: "udp" } },
  };
  await gate.decide(request);
  const deciding = gate.decide(request);
  await eventually("a person is asked", () => gate.asks.pending().length === 1, 20);
  gate.asks.resolve(gate.asks.pending()[0].ask_id, { decision: "allow", scope: "once" });
  assertEquals([(await deciding).allowed, gate.budgetUses()[0].used], [true, 2]);
});

Deno.test("DNS counts as requests and as bytes that leave", async () => {
  for (
    const [terms, rule] of [[{ requests: 3 }, "budget-requests"], [
      { bytes_out: 300 },
      "budget-bytes_out",
    ]] as const
  ) {
    const gate = new TestGate();
    gate.useBudget({ terms: { profile: BudgetTerms.parse({ ...terms, on_limit: "block" }) }, cost });
    const service = new DnsService({ gate, resolvers: [] });
    let blocked = 0;
    for (let at = 0; at < 9; at++) {
      await service.lookup(`${"a".repeat(60)}${at}.example`).catch(() => {});
      blocked = gate.entries.filter(({ decision }) => decision?.rule.id === rule).length;
    }
    assert(blocked > 0 && gate.entries.length - blocked <= 3, `${gate.entries.length - blocked} went out`);
  }
});

Deno.test("bytes of a body without a length, and of a relayed connection, count as they are sent", async (t) => {
  const piece = new Uint8Array(50_000);
  for (const how of ["chunks", "a tunnel"]) {
    await t.step(how, async () => {
      let got = 0;
      const upstream = rawUpstream(async (client) => {
        if (how === "a tunnel") await client.send("hello\n");
        while (true) {
          await client.take(1000);
          got += 1000;
        }
      });
      const rules =
        '[profiles.rules.relay]\naction = "allow"\nmatch = \'http.request.method == "CONNECT"\'\n';
      await using net = await TestNet.open({ rules, target: () => upstream.target });
      const terms = BudgetTerms.parse({ bytes_out: 300_000, on_limit: "block" });
      net.gate.useBudget({ terms: { profile: terms }, cost });
      const client = await net.client(how === "chunks" ? 80 : 5432);
      if (how === "chunks") {
        await client.send("POST /x HTTP/1.1\r\nHost: a.test\r\nTransfer-Encoding: chunked\r\n\r\n");
      } else await client.until("\n");
      const sending = async () => {
        for (let at = 0; at < 40; at++) {
          if (how === "chunks") await client.send(`${piece.length.toString(16)}\r\n`);
          await client.send(piece);
          if (how === "chunks") await client.send("\r\n");
        }
      };
      await sending().catch(() => {});
      client.close();
      await net.idle();
      const [{ used }] = net.gate.budgetUses();
      assert(got > 100_000 && got <= 300_000, `${got}`);
      assert(used > 300_000 && used < 500_000, `${used}`);
      upstream.close();
    });
  }
});

Deno.test("a day whose spending cannot be read is a day that is spent", async () => {
  const dir = await Deno.makeTempDir();
  try {
    const today = `${dir}/${new Date().toISOString().slice(0, 10)}`;
    await Deno.mkdir(today);
    await Deno.writeTextFile(`${today}/other.json`, "{");
    const gate = new TestGate();
    const terms = { profile: BudgetTerms.parse({ per_day_requests: 5 }) };
    gate.useBudget({ terms, cost, day: new DaySpending(dir, "own") });
    const request = {
      common: { event_type: "dns.query" as const, source_engine: "network" as const },
      dns: { request: { qname: "a.example", qtype: "A", transport: "udp" } },
    };
    const { decision } = await gate.decide(request);
    assertEquals(decision.decision, "block");
    assertStringIncludes(decision.rule.reason ?? "", "cannot be read");
  } finally {
    await Deno.remove(dir, { recursive: true });
  }
});
