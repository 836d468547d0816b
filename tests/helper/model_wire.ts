/** Model calls as they look on the wire of each provider, with what is to be read from them. */
import { half, rest, sse, weather, type WireSample } from "./model_sample.ts";
import { CLOUD_WIRE } from "./model_wire_clouds.ts";
import { OPENAI_WIRE } from "./model_wire_openai.ts";

export type { WireSample };

export const WIRE: WireSample[] = [
  {
    what: "anthropic, whole, with both caches",
    host: "api.anthropic.com",
    path: "/v1/messages",
    request: {
      model: "claude-sonnet-4-5-20250929",
      max_tokens: 1024,
      system: [{ type: "text", text: "be brief", cache_control: { type: "ephemeral" } }],
      messages: [{ role: "user", content: "weather?" }],
      tools: [{ name: "weather", input_schema: { type: "object" } }],
    },
    expected: {
      provider: "anthropic",
      api_family: "anthropic.messages",
      operation: "messages",
      model: "claude-sonnet-4-5-20250929",
      stream: false,
      messages_count: 1,
      tools_count: 1,
    },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      id: "msg_01",
      type: "message",
      role: "assistant",
      content: [{ type: "text", text: "…" }, {
        type: "tool_use",
        id: "toolu_1",
        name: "weather",
        input: weather,
      }],
      stop_reason: "tool_use",
      usage: {
        input_tokens: 100,
        cache_creation_input_tokens: 1000,
        cache_creation: { ephemeral_5m_input_tokens: 600, ephemeral_1h_input_tokens: 400 },
        cache_read_input_tokens: 2000,
        output_tokens: 50,
      },
    }),
    answer: {
      status: 200,
      stop_reason: "tool_use",
      input_tokens: 3100,
      cached_input_tokens: 2000,
      output_tokens: 50,
      // 100·3 + 600·3.75 + 400·6 + 2000·0.3 + 50·15
      estimated_cost_micros: 6300,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "anthropic, stream",
    host: "api.anthropic.com",
    path: "/v1/messages",
    request: { model: "claude-haiku-4-5", max_tokens: 9, stream: true, messages: [{}, {}, {}] },
    expected: { stream: true, messages_count: 3, tools_count: 0, model: "claude-haiku-4-5" },
    status: 200,
    content_type: "text/event-stream; charset=utf-8",
    response: sse([
      { type: "message_start", message: { type: "message", usage: { input_tokens: 10, output_tokens: 1 } } },
      { type: "content_block_start", index: 0, content_block: { type: "text", text: "" } },
      { type: "ping" },
      { type: "content_block_delta", index: 0, delta: { type: "text_delta", text: "data: {\n\n" } },
      { type: "content_block_stop", index: 0 },
      {
        type: "content_block_start",
        index: 1,
        content_block: { type: "tool_use", id: "t", name: "weather", input: {} },
      },
      { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: "" } },
      { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: half } },
      { type: "content_block_delta", index: 1, delta: { type: "input_json_delta", partial_json: rest } },
      { type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 30 } },
      { type: "message_stop" },
    ], { named: true }),
    answer: {
      status: 200,
      stop_reason: "tool_use",
      input_tokens: 10,
      output_tokens: 30,
      estimated_cost_micros: 160,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "anthropic, an error",
    host: "api.anthropic.com",
    path: "/v1/messages",
    request: { model: "claude-opus-4-1", max_tokens: 9, messages: [{}] },
    expected: { messages_count: 1 },
    status: 529,
    content_type: "application/json",
    response: '{"type":"error","error":{"type":"overloaded_error","message":"Overloaded"}}',
    answer: { status: 529, stop_reason: "overloaded_error", tool_calls: [] },
  },
  {
    what: "google, stream as events",
    host: "generativelanguage.googleapis.com",
    path: "/v1beta/models/gemini-2.5-flash:streamGenerateContent",
    request: {
      contents: [{ role: "user", parts: [{ text: "hi" }] }],
      tools: [{ functionDeclarations: [{}, {}] }, { googleSearch: {} }],
    },
    expected: {
      provider: "google",
      api_family: "google.generate_content",
      operation: "streamGenerateContent",
      model: "gemini-2.5-flash",
      stream: true,
      messages_count: 1,
      tools_count: 3,
    },
    status: 200,
    content_type: "text/event-stream",
    response: sse([
      { candidates: [{ content: { parts: [{ text: "a" }] } }], usageMetadata: { promptTokenCount: 100 } },
      {
        candidates: [{
          content: { parts: [{ functionCall: { name: "weather", args: weather } }] },
          finishReason: "STOP",
        }],
        usageMetadata: {
          promptTokenCount: 100,
          cachedContentTokenCount: 40,
          candidatesTokenCount: 6,
          thoughtsTokenCount: 4,
        },
      },
    ], { end: "\r\n" }),
    answer: {
      status: 200,
      stop_reason: "STOP",
      input_tokens: 100,
      cached_input_tokens: 40,
      output_tokens: 10,
      // 60·0.3 + 40·0.03 + 10·2.5 = 44.2
      estimated_cost_micros: 44,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "google, of Code Assist, stream as events",
    host: "cloudcode-pa.googleapis.com",
    path: "/v1internal:streamGenerateContent",
    request: {
      model: "gemini-2.5-flash",
      project: "p",
      user_prompt_id: "u",
      request: {
        contents: [{ role: "user", parts: [{ text: "hi" }] }],
        tools: [{ functionDeclarations: [{}, {}] }],
      },
    },
    expected: {
      provider: "google",
      api_family: "google.code_assist",
      operation: "generateContent",
      model: "gemini-2.5-flash",
      stream: true,
      messages_count: 1,
      tools_count: 2,
    },
    status: 200,
    content_type: "text/event-stream",
    response: sse([
      { response: { candidates: [{ content: { parts: [{ text: "a" }] } }] }, traceId: "t" },
      {
        response: {
          candidates: [{
            content: { parts: [{ functionCall: { name: "weather", args: weather } }] },
            finishReason: "STOP",
          }],
          usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10 },
        },
      },
    ], { end: "\r\n" }),
    answer: {
      status: 200,
      stop_reason: "STOP",
      input_tokens: 100,
      output_tokens: 10,
      // 100·0.3 + 10·2.5 = 55
      estimated_cost_micros: 55,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "google, stream as one list, long input of the dearer kind",
    host: "us-central1-aiplatform.googleapis.com",
    path:
      "/v1/projects/p/locations/us-central1/publishers/google/models/gemini-2.5-pro:streamGenerateContent",
    request: { contents: [{ parts: [] }, { parts: [] }] },
    expected: { provider: "google", model: "gemini-2.5-pro", messages_count: 2, tools_count: 0 },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify(
      [
        { candidates: [{ content: { parts: [{ text: "a" }] } }] },
        {
          candidates: [{ finishReason: "MAX_TOKENS" }],
          usageMetadata: { promptTokenCount: 300_000, candidatesTokenCount: 10 },
        },
      ],
      null,
      1,
    ),
    answer: {
      status: 200,
      stop_reason: "MAX_TOKENS",
      input_tokens: 300_000,
      output_tokens: 10,
      estimated_cost_micros: 750_150,
      tool_calls: [],
    },
  },
  {
    what: "anthropic's models on Vertex AI",
    host: "europe-west1-aiplatform.googleapis.com",
    path:
      "/v1/projects/p/locations/europe-west1/publishers/anthropic/models/claude-sonnet-4-5@20250929:streamRawPredict",
    request: { anthropic_version: "vertex-2023-10-16", max_tokens: 9, messages: [{}] },
    expected: {
      provider: "google",
      api_family: "anthropic.messages",
      model: "claude-sonnet-4-5@20250929",
      stream: true,
    },
    status: 200,
    content_type: "text/event-stream",
    response: sse([{ type: "message_start", message: { usage: { input_tokens: 3, output_tokens: 1 } } }], {
      named: true,
    }),
    answer: {
      status: 200,
      input_tokens: 3,
      output_tokens: 1,
      estimated_cost_micros: 24,
      price_basis: "family",
      tool_calls: [],
    },
  },
  {
    what: "ollama chat, lines",
    host: "localhost",
    path: "/api/chat",
    request: { model: "llama3.2", messages: [{ role: "user", content: "hi" }], options: { temperature: 0 } },
    expected: {
      provider: "ollama",
      api_family: "ollama.chat",
      operation: "chat",
      stream: true,
      messages_count: 1,
    },
    status: 200,
    content_type: "application/x-ndjson",
    response: [
      {
        message: {
          role: "assistant",
          content: "",
          tool_calls: [{ function: { name: "weather", arguments: weather } }],
        },
        done: false,
      },
      { message: { content: "…" }, done: false },
      { message: { content: "" }, done: true, done_reason: "stop", prompt_eval_count: 26, eval_count: 8 },
    ].map((line) => JSON.stringify(line)).join("\n") + "\n",
    answer: {
      status: 200,
      stop_reason: "stop",
      input_tokens: 26,
      output_tokens: 8,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "ollama generate, whole, on a path of its own",
    host: "gpu.example",
    path: "/proxy/llm",
    request: { model: "llama3.2", prompt: "hi", stream: false, keep_alive: "5m" },
    expected: {
      provider: "ollama",
      api_family: "ollama.generate",
      operation: "generate",
      stream: false,
      messages_count: 1,
    },
    status: 200,
    content_type: "application/json; charset=utf-8",
    response:
      '{"model":"llama3.2","response":"hi","done":true,"done_reason":"length","prompt_eval_count":2,"eval_count":3}',
    answer: { status: 200, stop_reason: "length", input_tokens: 2, output_tokens: 3, tool_calls: [] },
  },
  ...CLOUD_WIRE,
  ...OPENAI_WIRE,
];
