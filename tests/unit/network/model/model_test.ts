/** Model calls read from bytes in transit, however they are split (docs/design/contracts/05-policy.md §5). */
import { assert, assertEquals, assertStringIncludes } from "@std/assert";
import { canonicalJson } from "../../../../lib/base/json/mod.ts";
import type { Event } from "../../../../lib/event/mod.ts";
import { EventSchema } from "../../../../lib/event/schema.ts";
import {
  LINE_MAX,
  type ModelCall,
  PARSE_ERROR,
  REQUEST_MAX,
  TOOL_CALLS_MAX,
} from "../../../../lib/network/model/mod.ts";
import type { Draft } from "../../../../lib/policy/mod.ts";
import { world } from "../../../helper/credential.ts";
import { WIRE, type WireSample } from "../../../helper/model_wire.ts";
import { encode, identity, matchCall, reader } from "../../../helper/model_call.ts";

function startCall(sample: WireSample): { call: ModelCall; draft: Draft } {
  const call = matchCall({ host: sample.host, path: sample.path })!;
  const draft = call.request(encode(JSON.stringify(sample.request)), undefined, identity)!.draft;
  call.head(sample.status, [["content-type", sample.content_type]]);
  return { call, draft };
}

/** Completes a draft to a valid event, as a session does. */
function completeEvent(draft: Draft, response?: unknown): Event {
  const common = {
    event_id: "0123456789ab",
    session_id: "s",
    vm_id: "s",
    profile_id: "code",
    profile_revision: "1.0.0",
    timestamp_unix_ms: 1,
    sequence: 0,
    enforceability: "inline_blockable" as const,
    actor: "vm" as const,
    labels: {},
    ...draft.common,
  };
  return EventSchema.parse({
    schema_version: 1,
    common,
    model: { ...draft.model!, ...(response ? { response } : {}) },
  });
}

for (const sample of WIRE) {
  Deno.test(`${sample.what}: request, and response cut at every byte`, () => {
    const bytes = typeof sample.response === "string" ? encode(sample.response) : sample.response;
    const { draft } = startCall(sample);
    const { body, ...facts } = draft.model!.request;
    for (const [key, value] of Object.entries(sample.expected)) {
      assertEquals(facts[key as keyof typeof facts], value, key);
    }
    assertEquals(body.text, JSON.stringify(sample.request));
    const cuts = [[bytes.length], ...bytes.keys().map((at) => [at, bytes.length]), [
      ...bytes.keys(),
      bytes.length,
    ]];
    for (const edges of cuts) {
      const { call } = startCall(sample);
      let at = 0;
      for (const edge of edges) {
        const chunk = bytes.slice(at, edge);
        call.chunk(chunk);
        // The caller reuses its buffer.
        chunk.fill(0);
        at = edge;
      }
      assertEquals(call.end(), sample.answer);
    }
    completeEvent(draft, sample.answer);
  });
}

Deno.test("requests other than model calls are ignored", () => {
  assertEquals(
    reader.match({ ...requestHead("api.openai.com", "/v1/chat/completions"), method: "GET" }),
    undefined,
  );
  assertEquals(matchCall({ host: "example.com", path: "/upload", content_type: "image/png" }), undefined);
  const bodies = [
    "{}",
    "[]",
    "null",
    "no json",
    '{"model":"x"}',
    '{"messages":[]}',
    '{"model":"car","input":"color"}',
  ];
  for (const body of bodies) {
    assertEquals(
      matchCall({ host: "example.com", path: "/v1/messages" })!.request(encode(body), undefined, identity),
      undefined,
    );
    assertEquals(
      matchCall({ host: "example.com", path: "/graphql" })!.request(encode(body), undefined, identity),
      undefined,
    );
  }
});

Deno.test("a provider's model path identifies a call, whatever the body, content type or case", () => {
  for (const path of ["/v1/messages", "/V1/Messages"]) {
    for (const body of ["", "no json", '{"model":7,"messages":{}}', "[1]", "\xff"]) {
      const call = matchCall({ host: "API.Anthropic.com.", path, content_type: "text/plain" });
      const draft = call!.request(encode(body), undefined, identity)!.draft;
      assertEquals([draft.model!.request.provider, draft.model!.request.messages_count], ["anthropic", 0]);
      completeEvent(draft);
    }
  }
  const truncated = matchCall({ host: "api.openai.com", path: "/v1/responses" })!;
  const { body, model } =
    truncated.request(encode('{"model":"gpt-4o","inp'), "it is cut", identity)!.draft.model!.request;
  assertEquals([model, body.truncated, truncated.bodyMax], ["", true, REQUEST_MAX]);
});

Deno.test("the shape of a body identifies the API on unknown hosts", () => {
  const cases: [body: unknown, family: string][] = [
    [{ model: "m", max_tokens: 5, system: "s", messages: [] }, "anthropic.messages"],
    [
      { model: "m", max_tokens: 5, messages: [{ role: "user", content: [{ type: "tool_result" }] }] },
      "anthropic.messages",
    ],
    [{ model: "m", max_tokens: 5, messages: [{ role: "user", content: "x" }] }, "openai.chat"],
    [{ model: "m", input: [{ role: "user", content: "x" }] }, "openai.responses"],
    [{ contents: [{ parts: [{ text: "x" }] }] }, "google.generate_content"],
    [{ model: "m", messages: [{ role: "user" }], options: {} }, "ollama.chat"],
    [{ model: "m", prompt: "x", options: {} }, "ollama.generate"],
  ];
  for (const [body, family] of cases) {
    const call = matchCall({ host: "gateway.example", path: "/anything" })!;
    assertEquals(
      call.request(encode(JSON.stringify(body)), undefined, identity)?.draft.model?.request.api_family,
      family,
    );
  }
});

Deno.test("a call to a model of this machine is one whatever its content type says, as curl sends it", () => {
  const body = encode('{"model":"qwen3","messages":[]}');
  for (const [host, path] of [["ollama.host.sbx", "/api/chat"], ["LLM.Host.sbx.", "/v1/chat/completions"]]) {
    const call = matchCall({ host, path, content_type: "application/x-www-form-urlencoded" })!;
    const request = call.request(body, undefined, identity)!;
    assertEquals([request.draft.model!.request.model, request.fault()], ["qwen3", undefined]);
  }
  const elsewhere = { host: "ollama.host.sbx.example", path: "/api/chat", content_type: "text/plain" };
  assertEquals(matchCall(elsewhere), undefined);
});

Deno.test("an unreadable response is a parse error, and an interrupted one is recorded as far as it came", () => {
  const [whole, stream] = WIRE;
  const cases: [WireSample, string, error: string | undefined, stop: string | undefined][] = [
    [whole, "<html>", undefined, PARSE_ERROR],
    [whole, String(whole.response).slice(0, 50), "the upstream reset", undefined],
    [stream, "data: {nope\n\ndata: more\n\n", undefined, PARSE_ERROR],
    [stream, String(stream.response).slice(0, 700), "the upstream reset", undefined],
    [stream, "data: " + "x".repeat(LINE_MAX) + "\n\n", undefined, PARSE_ERROR],
    [stream, "data: x\n".repeat(LINE_MAX / 4), undefined, PARSE_ERROR],
    [stream, 'data: 7\n\ndata: null\n\ndata: []\n\ndata: "x"\n\n', undefined, undefined],
  ];
  for (const [sample, text, error, stop] of cases) {
    const { call } = startCall(sample);
    call.chunk(encode(text));
    assertEquals(call.end(error)?.stop_reason, stop, text.slice(0, 30));
  }
  const { call } = startCall(stream);
  call.chunk(encode(String(stream.response).slice(0, 700)));
  assertEquals(call.end("reset")?.input_tokens, 10);
  assertEquals(matchCall(whole)!.end(), undefined, "no response");
});

Deno.test("the tool calls of a response are bounded", () => {
  const { call } = startCall(WIRE[1]);
  for (let index = 0; index < 10_000; index++) {
    const start = { type: "content_block_start", index, content_block: { type: "tool_use", name: "t" } };
    const delta = { type: "content_block_delta", index, delta: { partial_json: `"${"x".repeat(10_000)}"` } };
    call.chunk(encode(`data: ${JSON.stringify(start)}\n\ndata: ${JSON.stringify(delta)}\n\n`));
  }
  const response = call.end()!;
  assertEquals(response.tool_calls.length, TOOL_CALLS_MAX);
  assert(JSON.stringify(response).length < 1_100_000);
});

const SECRET = `mcp-secret-${"0123456789abcdef".repeat(255)}`;

Deno.test(
  "everything recorded of a call is scrubbed, also a secret at the end of what is kept",
  world([{ provider: "mcp", secret: SECRET, hosts: ["mcp.example.com"] }], async ({ open, refs }) => {
    const broker = await open();
    const escaped = SECRET.replaceAll(/./g, (char) => `\\u00${char.charCodeAt(0).toString(16)}`);
    for (const kept of [0, 100, 300, 6000]) {
      const call = matchCall({
        host: "api.openai.com",
        path: "/v1/chat/completions",
        content_type: `application/json; x=${SECRET}`,
      })!;
      const before = '{"messages":[{"role":"user","content":"';
      const pad = "x".repeat(64 * 1024 - before.length - kept);
      const request = `${before}${pad}${escaped} ${SECRET}"}],"model":"m-${SECRET}"}`;
      const draft = call.request(encode(request), undefined, (text, isCut) =>
        broker.scrub(text, isCut))!.draft;
      assertStringIncludes(draft.model!.request.body.content_type!, refs.mcp);
      call.head(200, [["content-type", "application/json"]]);
      const args = JSON.stringify({ key: SECRET });
      const message = { tool_calls: [{ function: { name: SECRET, arguments: args } }] };
      call.chunk(encode(JSON.stringify({ choices: [{ message, finish_reason: SECRET }] })));
      const text = canonicalJson(completeEvent(draft, call.end()));
      for (const part of ["secret-0123", escaped.slice(0, 60)]) {
        assert(!text.includes(part), `${kept}: ${part}`);
      }
    }
  }),
);

Deno.test("rules can rewrite the model and the text of a call", () => {
  const body = { model: "gpt-4o", messages: [{ role: "user", content: "my name is Ada" }] };
  const bytes = encode(JSON.stringify(body));
  const rewrite = (change: (event: Event) => void) => {
    const call = matchCall({ host: "api.openai.com", path: "/v1/chat/completions" })!;
    const event = structuredClone(completeEvent(call.request(bytes, undefined, identity)!.draft));
    change(event);
    const out = call.rewrite(event, bytes);
    call.head(200, []);
    call.chunk(encode('{"choices":[],"usage":{"prompt_tokens":1000,"completion_tokens":0}}'));
    return {
      body: out && JSON.parse(new TextDecoder().decode(out)),
      cost: call.end()!.estimated_cost_micros,
    };
  };
  assertEquals(rewrite(() => {}), { body: undefined, cost: 2500 });
  const cheaper = (event: Event) => event.model!.request.model = "gpt-4o-mini";
  assertEquals(rewrite(cheaper), { body: { ...body, model: "gpt-4o-mini" }, cost: 150 });
  const nameless = (event: Event) => {
    event.model!.request.body.text = event.model!.request.body.text!.replace("Ada", "X");
  };
  assertEquals(rewrite(nameless).body.messages[0].content, "my name is X");
});

function requestHead(host: string, path: string) {
  return { method: "POST", scheme: "https", host, port: 443, path, query: "", headers: [] };
}
