/** Requests that reached a model past a rule on it, with the provider's key. */
import { assertEquals, assertStringIncludes } from "@std/assert";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { ModelReader } from "../../../lib/model/mod.ts";
import { TestNet } from "../../helper/net.ts";
import { rawUpstream } from "../../helper/net_client.ts";

const ANTHROPIC = "api.anthropic.com";
const OPENAI = "api.openai.com";
const GOOGLE = "generativelanguage.googleapis.com";
const BLOCKED = "claude-opus-4-1";
const RULES = `
[profiles.rules.no-opus]
action = "block"
match = 'model.request.model == "${BLOCKED}"'
`;

const bytes = (text: string) => new TextEncoder().encode(text);
const join = (...parts: Uint8Array[]) => new Uint8Array(parts.flatMap((part) => [...part]));
const call = (more: object = {}) => JSON.stringify({ model: BLOCKED, max_tokens: 9, messages: [], ...more });
const utf16 = (text: string) => new Uint8Array(Uint16Array.from(text, (char) => char.charCodeAt(0)).buffer);

interface Attack {
  host?: string;
  method?: string;
  path?: string;
  headers?: string[];
  body?: Uint8Array | string;
}

/** Sends one request. @returns the status, whether the upstream got it, and the last rule that decided */
async function attack(
  rules: string,
  { host = ANTHROPIC, method = "POST", path = "/v1/messages", headers, body = call() }: Attack,
) {
  const payload = typeof body === "string" ? bytes(body) : body;
  const fields = [`Content-Length: ${payload.length}`, ...headers ?? ["Content-Type: application/json"]];
  let received = 0;
  const upstream = rawUpstream(async (client) => {
    await client.until("\r\n\r\n");
    await client.take(payload.length);
    received++;
    await client.send("HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\n{}");
  });
  await using net = await TestNet.open({ rules, models: new ModelReader(), target: () => upstream.target });
  const client = await net.client();
  const head = [`${method} ${path} HTTP/1.1`, `Host: ${host}`, ...fields].join("\r\n");
  const head0 = bytes(`${head}\r\n\r\n`);
  const whole = new Uint8Array(head0.length + payload.length);
  whole.set(head0);
  whole.set(payload, head0.length);
  // An answer may come before the body is taken.
  const sending = client.send(whole).catch(() => {});
  const { status } = await client.answer(method);
  client.close();
  await sending;
  upstream.close();
  await net.idle();
  const calls = net.gate.entries.filter(({ event }) => event.model);
  const decision = calls.at(-1)?.decision ?? net.gate.entries.at(-1)?.decision;
  return {
    status,
    received,
    rule: decision?.rule.id,
    reason: decision?.rule.reason,
    requests: calls.map(({ event }) => event.model!.request),
  };
}

const form = (fields: [head: string, value: string][]) =>
  fields.map(([head, value]) => `--b\r\nContent-Disposition: form-data; ${head}\r\n\r\n${value}\r\n`).join(
    "",
  ) +
  "--b--\r\n";
const FORM = ["Content-Type: multipart/form-data; boundary=b"];

Deno.test("no request to a provider hides its model from a rule on models", async (t) => {
  const guard = "guard-model";
  const cases: [name: string, attack: Attack, rule?: string][] = [
    ["as it is", {}],
    ["another type", { headers: ["Content-Type: text/plain"] }],
    ["8.5 MB of white space", { body: call().slice(0, -1) + " ".repeat(8.5e6) + "}" }, guard],
    ["gzip that grows past the limit", {
      headers: ["Content-Encoding: gzip"],
      body: gzipSync(" ".repeat(9e6) + call()),
    }, guard],
    ["gzip twice", { headers: ["Content-Encoding: gzip, gzip"], body: gzipSync(gzipSync(call())) }],
    ["br, then gzip, in two fields", {
      headers: ["Content-Encoding: br", "Content-Encoding: gzip"],
      body: gzipSync(brotliCompressSync(call())),
    }],
    ["an unknown encoding", { headers: ["Content-Encoding: pack"] }, guard],
    ["bytes after gzip", {
      headers: ["Content-Encoding: gzip"],
      body: join(gzipSync(call()), bytes("x")),
    }, guard],
    ["UTF-16", { body: utf16(call()) }, guard],
    ["UTF-16 by its charset", { headers: ["Content-Type: application/json; charset=utf-16"] }, guard],
    ["an invalid byte", { body: join(bytes(call()), new Uint8Array([0xff])) }, guard],
    ["NaN", { body: call().replace("9", "NaN") }, guard],
    ["a comment", { body: `/**/${call()}` }, guard],
    ["a list", { body: `[${call()}]` }, guard],
    ["lines", { body: `${call({ model: "m" })}\n${call()}` }, guard],
    ["a repeated key", { body: `{"model":"${BLOCKED}",${call({ model: "m" }).slice(1)}` }, guard],
    [
      "a repeated key, escaped",
      { body: `{"\\u006dodel":"${BLOCKED}",${call({ model: "m" }).slice(1)}` },
      guard,
    ],
    ["a key in capitals", { body: call({ model: "m", MODEL: BLOCKED }) }, guard],
    ["a model in a list", { body: call({ model: [BLOCKED] }) }, guard],
    ["white space around the name", { body: call({ model: ` ${BLOCKED}` }) }, guard],
    ["no model", { body: call({ model: undefined }) }, guard],
    [
      "a fallback",
      { host: "openrouter.ai", path: "/api/v1/chat/completions", body: call({ models: ["m"] }) },
      guard,
    ],
    [
      "a tool with a model",
      { body: call({ model: "m", tools: [{ type: "advisor", model: BLOCKED }] }) },
      guard,
    ],
    ["deep nesting", { body: call({ tools: [] }).replace("[]", "[".repeat(300) + "]".repeat(300)) }, guard],
    ["/v1/./messages", { path: "/v1/./messages" }],
    ["/v1/%6dessages/", { path: "/v1/%6dessages/" }],
    ["/V1/Messages/Batches", {
      path: "/V1/Messages/Batches",
      body: JSON.stringify({ requests: [{ params: JSON.parse(call()) }] }),
    }],
    ["an unknown path", { path: "/v7/think" }],
    ["an unknown path with NaN", { path: "/v7/think", body: call().replace("9", "NaN") }, guard],
    ["a repeated key at an unknown host", {
      host: "gateway.example",
      body: `{"model":"${BLOCKED}",${call({ model: "m" }).slice(1)}`,
    }, guard],
    ["another method", { method: "PUT" }],
    ["another method by a header", { method: "GET", headers: ["X-HTTP-Method-Override: POST"] }],
    ["a batch", {
      path: "/v1/messages/batches",
      body: JSON.stringify({ requests: [{ custom_id: "1", params: JSON.parse(call()) }] }),
    }],
    ["a batch of two models", {
      path: "/v1/messages/batches",
      body: JSON.stringify({ requests: [{ params: { model: "m" } }, { params: { model: BLOCKED } }] }),
    }, guard],
    ["a batch of one model in many spellings, and of another", {
      path: "/v1/messages/batches",
      body: JSON.stringify({
        requests: [...Array(100).keys()].map((at) => ({ params: { model: `publishers/${at}/models/m` } }))
          .concat({ params: { model: BLOCKED } }),
      }),
    }, guard],
    ["a batch of a file", {
      host: OPENAI,
      path: "/v1/batches",
      body: JSON.stringify({ input_file_id: "file-1", endpoint: "/v1/responses" }),
    }, guard],
    ["token counting", { path: "/v1/messages/count_tokens" }],
    ["embeddings", { host: OPENAI, path: "/v1/embeddings" }],
    ["images", { host: OPENAI, path: "/v1/images/generations" }],
    ["audio", {
      host: OPENAI,
      path: "/v1/audio/transcriptions",
      headers: FORM,
      body: form([[`name="file"; filename="a.wav"`, "RIFF"], [`name="model"`, BLOCKED]]),
    }],
    ["a form with two models", {
      host: OPENAI,
      path: "/v1/audio/transcriptions",
      headers: FORM,
      body: form([[`name="model"`, "m"], [`name="model"`, BLOCKED]]),
    }, guard],
    ["a form with two boundaries", {
      host: OPENAI,
      path: "/v1/audio/transcriptions",
      headers: ["Content-Type: multipart/form-data; boundary=b; boundary=c"],
      body: form([[`name="model"`, "m"]]),
    }, guard],
    ["a form with a name in the other spelling", {
      host: OPENAI,
      path: "/v1/images/edits",
      headers: FORM,
      body: form([[`name="model"`, "m"], [`name*=utf-8''model`, BLOCKED]]),
    }, guard],
    ["a session in SDP", {
      host: OPENAI,
      path: `/v1/realtime/calls?model=${BLOCKED}`,
      headers: ["Content-Type: application/sdp"],
      body: "v=0",
    }, guard],
    ["a model in the path", { host: GOOGLE, path: `/v1beta/models/${BLOCKED}:embedContent`, body: "{}" }],
    ["a model in the query, and another in the body", {
      host: OPENAI,
      path: `/v1/responses?model=${BLOCKED}`,
      body: JSON.stringify({ model: "m", input: "x" }),
    }, guard],
    ["a form that is JSON too", {
      host: OPENAI,
      path: "/v1/completions",
      headers: ["Content-Type: application/x-www-form-urlencoded"],
      body: `{"model":"m","a":"&model=${BLOCKED}&prompt=x&z="}`,
    }, guard],
    ["JSON that is called a message of protobuf", {
      host: GOOGLE,
      path: "/v1beta/models/m:generateContent",
      headers: ["Content-Type: application/x-protobuf"],
      body: `{"contents":[]}`,
    }, guard],
    ["a list at an unknown path", {
      host: GOOGLE,
      path: "/$rpc/google.ai.GenerativeService/GenerateContent",
      headers: ["Content-Type: application/json+protobuf"],
      body: `["models/${BLOCKED}",[]]`,
    }, guard],
    ["a list at an unknown path, of calls", { path: "/v7/think", body: `[${call()}]` }, guard],
    ["a key with a NUL", { body: call({ model: "m", "model\0": BLOCKED }) }, guard],
    ["a model in a grader", {
      host: OPENAI,
      path: "/v1/fine_tuning/alpha/graders/run",
      body: JSON.stringify({ grader: { type: "score_model", model: BLOCKED } }),
    }],
    ["an agent instead of a model", {
      host: "api.mistral.ai",
      path: "/v1/conversations",
      body: JSON.stringify({ agent_id: "ag_1", inputs: "x" }),
    }, guard],
    ["an interaction with an agent", {
      host: GOOGLE,
      path: "/v1beta/interactions",
      body: JSON.stringify({ agent: "deep-research", input: "x" }),
    }, guard],
    ["the long name of a model", {
      host: "aiplatform.googleapis.com",
      path: "/v1/projects/p/locations/l/cachedContents",
      body: JSON.stringify({ model: `projects/p/locations/l/publishers/google/models/${BLOCKED}` }),
    }],
    ["the host of a region", {
      host: "aiplatform.us-central1.rep.googleapis.com",
      path: `/v1/projects/p/locations/l/publishers/google/models/${BLOCKED}:predict`,
      body: "{}",
    }],
    ["another host of Azure", {
      host: "x.cognitiveservices.azure.com",
      path: `/openai/deployments/${BLOCKED}/embeddings`,
      body: `{"input":"x"}`,
    }],
    ["Gemini of Code Assist", {
      host: "cloudcode-pa.googleapis.com",
      path: "/v1internal:generateContent",
      body: JSON.stringify({ model: BLOCKED, request: { contents: [] } }),
    }],
  ];
  for (const [name, request, rule = "no-opus"] of cases) {
    await t.step(name, async () => {
      const { status, received, rule: by, reason } = await attack(RULES, request);
      assertEquals({ status, received, by }, { status: 403, received: 0, by: rule }, reason);
    });
  }
});

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
