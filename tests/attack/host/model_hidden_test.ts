/** Requests to a provider whose model a rule on models would not see: all of them are blocked. */
import { assertEquals } from "@std/assert";
import { brotliCompressSync, gzipSync } from "node:zlib";
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

const utf16 = (text: string) => new Uint8Array(Uint16Array.from(text, (char) => char.charCodeAt(0)).buffer);

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
