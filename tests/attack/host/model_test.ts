/** Rules on models against requests to providers: what passes, and what a rewrite changes. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import {
  type Attack,
  attack,
  BLOCKED,
  bytes,
  call,
  FORM,
  form,
  GOOGLE,
  join,
  OPENAI,
  RULES,
} from "../../helper/model_attack.ts";

Deno.test("what can be read passes, and without a rule on models everything does", async (t) => {
  const unread: Attack = { body: call().replace("9", "NaN") };
  const passing: [name: string, rules: string, attack: Attack][] = [
    ["another model", RULES, { body: call({ model: "claude-haiku-4-5" }) }],
    ["the body's mark of UTF-8", RULES, {
      body: join(new Uint8Array([0xef, 0xbb, 0xbf]), bytes(call({ model: "m" }))),
    }],
    ["a file", RULES, {
      path: "/v1/files",
      headers: FORM,
      body: form([[`name="file"; filename="a"`, "\xff"]]),
    }],
    ["no model operation", RULES, {
      path: "/api/event_logging/batch",
      body: `{"events":[{"model":"${BLOCKED}"}]}`,
    }],
    ["no body", RULES, { path: "/v1/messages/batches/b/cancel", body: "" }],
    ["reading", RULES, { method: "GET", path: "/v1/models", body: "" }],
    ["token counting at Vertex AI", RULES, {
      host: "us-east5-aiplatform.googleapis.com",
      path: "/v1/projects/p/locations/l/publishers/anthropic/models/count-tokens:rawPredict",
      body: call({ model: "claude-haiku-4-5" }),
    }],
    ["no rule on models", "", unread],
    ["a rule on other events", `[profiles.rules.r]\naction = "block"\nmatch = 'has(dns.request)'`, unread],
  ];
  for (const [name, rules, request] of passing) {
    await t.step(name, async () => {
      const { status, received, reason, requests } = await attack(rules, request);
      assertEquals({ status, received }, { status: 200, received: 1 }, reason);
      // Files of forms are not recorded.
      assertEquals(requests.filter(({ body }) => body.state === "binary" && body.text !== undefined), []);
    });
  }
});

Deno.test("a rule on the operation sees batches, files and token counts", async () => {
  const rules = `
[profiles.rules.only-messages]
action = "block"
match = 'has(model.request) && !(model.request.operation in ["messages"])'
`;
  for (const path of ["/v1/files", "/v1/messages/batches", "/v1/messages/count_tokens", "/v1/audio/speech"]) {
    const { status, rule, requests } = await attack(rules, { path });
    assertEquals([status, rule], [403, "only-messages"]);
    assertStringIncludes(path.replaceAll("/", "."), requests[0].operation);
  }
});

Deno.test("a rewrite of a model that the path names sends nothing", async () => {
  const rules = `
[profiles.rules.cheaper]
action = "rewrite"
match = 'model.request.model == "${BLOCKED}"'
rewrite = [{ op = "set", path = "model.request.model", value = "gemini-2.5-flash" }]
`;
  const { status, received } = await attack(rules, {
    host: GOOGLE,
    path: `/v1beta/models/${BLOCKED}:generateContent`,
    body: `{"contents":[]}`,
  });
  assertEquals([status, received], [400, 0]);
});

Deno.test("a rule that tells models by the engine or a prefix of the type refuses what hides them", async () => {
  for (const match of ['common.source_engine == "model"', 'common.event_type.startsWith("model")']) {
    const rules = `[profiles.rules.no-models]\naction = "block"\nmatch = '${match}'\n`;
    const hidden = { path: "/v7/think", body: call().replace("9", "NaN") };
    const { received, rule } = await attack(rules, hidden);
    assertEquals([received, rule], [0, "guard-model"]);
  }
});

Deno.test("a request that a profile's rewrite makes a model call is decided on as one", async (t) => {
  const rewritten = (path: string, value: string, match: string) =>
    `[corp.rules.no-opus]\naction = "block"\nmatch = 'model.request.model == "${BLOCKED}"'\n` +
    `[profiles.rules.r]\naction = "rewrite"\nmatch = '${match}'\n` +
    `rewrite = [{ op = "set", path = "${path}", value = "${value}" }]\n`;
  const toHost = rewritten("http.request.host", OPENAI, 'http.request.host == "a.example.com"');
  const cases: [name: string, rules: string, attack: Attack, rule: string][] = [
    ["a host", toHost, {
      host: "a.example.com",
      path: "/v1/embeddings",
      body: JSON.stringify({ model: BLOCKED, input: "x" }),
    }, "no-opus"],
    ["a host, and a body that cannot be read", toHost, {
      host: "a.example.com",
      body: call().replace("9", "NaN"),
    }, "guard-model"],
    ["a host, and a WebSocket", toHost, {
      host: "a.example.com",
      method: "GET",
      path: "/v1/other",
      headers: [
        "Connection: Upgrade",
        "Upgrade: websocket",
        "Sec-WebSocket-Version: 13",
        "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==",
      ],
      body: "",
    }, "block-model-websocket"],
    ["a path", rewritten("http.request.path", "/v1/messages", 'http.request.path == "/v1/files"'), {
      path: "/v1/files",
    }, "no-opus"],
    ["a method", rewritten("http.request.method", "POST", 'http.request.method == "DELETE"'), {
      method: "DELETE",
    }, "no-opus"],
  ];
  for (const [name, rules, request, by] of cases) {
    await t.step(name, async () => {
      const { status, received, rule } = await attack(rules, request);
      assertEquals({ status, received, rule }, { status: 403, received: 0, rule: by });
    });
  }
});
