/** Model calls at clouds: Bedrock, Vertex AI and Azure. */
import { EventStreamCodec } from "@smithy/core/event-streams";
import { half, rest, sse, weather, type WireSample } from "./model_sample.ts";

const decoder = new TextDecoder(), encoder = new TextEncoder();
const codec = new EventStreamCodec(
  (bytes) => decoder.decode(bytes as Uint8Array),
  (text) => encoder.encode(text),
);

/** A message of a binary event stream, as AWS's own library writes it. */
export function frame(type: string, payload: unknown, kind = "event"): Uint8Array {
  const text = (value: string) => ({ type: "string" as const, value });
  return codec.encode({
    headers: {
      ":message-type": text(kind),
      [kind === "event" ? ":event-type" : ":exception-type"]: text(type),
      ":content-type": text("application/json"),
      // Values of other types, to be skipped.
      "x-time": { type: "timestamp", value: new Date(0) },
      "x-flag": { type: "boolean", value: true },
      "x-bytes": { type: "binary", value: Uint8Array.of(1, 2) },
    },
    body: encoder.encode(JSON.stringify(payload)),
  });
}

/** A part of a streamed answer of InvokeModel. */
export const chunkFrame = (value: unknown) =>
  frame("chunk", { bytes: encoder.encode(JSON.stringify(value)).toBase64(), p: "abcd" });

export function joined(frames: Uint8Array[]): Uint8Array<ArrayBuffer> {
  return new Uint8Array(frames.flatMap((bytes) => [...bytes]));
}

const BEDROCK = "bedrock-runtime.eu-central-1.amazonaws.com";
const CLAUDE = "us.anthropic.claude-sonnet-4-5-20250929-v1:0";
const claudeBody = { anthropic_version: "bedrock-2023-05-31", max_tokens: 9, messages: [{}] };
const tools = [{ toolSpec: { name: "weather" } }];

export const CLOUD_WIRE: WireSample[] = [
  {
    what: "bedrock, Claude invoked by a profile",
    host: BEDROCK,
    path: `/model/${CLAUDE}/invoke`,
    request: claudeBody,
    expected: {
      provider: "bedrock",
      api_family: "anthropic.messages",
      operation: "invoke",
      model: CLAUDE,
      stream: false,
      messages_count: 1,
    },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      type: "message",
      content: [],
      stop_reason: "end_turn",
      usage: { input_tokens: 100, cache_read_input_tokens: 1000, output_tokens: 10 },
    }),
    answer: {
      status: 200,
      stop_reason: "end_turn",
      input_tokens: 1100,
      cached_input_tokens: 1000,
      output_tokens: 10,
      // 100·3 + 1000·0.3 + 10·15
      estimated_cost_micros: 750,
      price_basis: "family",
      tool_calls: [],
    },
  },
  {
    what: "bedrock, Claude invoked by an ARN, stream",
    host: BEDROCK,
    path: "/model/arn:aws:bedrock:us-east-1::foundation-model/anthropic.claude-haiku-4-5-20251001-v1:0/" +
      "invoke-with-response-stream",
    request: claudeBody,
    expected: { provider: "bedrock", operation: "invoke-with-response-stream", stream: true },
    status: 200,
    content_type: "application/vnd.amazon.eventstream",
    response: joined([
      chunkFrame({ type: "message_start", message: { usage: { input_tokens: 10, output_tokens: 1 } } }),
      chunkFrame({
        type: "content_block_start",
        index: 0,
        content_block: { type: "tool_use", id: "t", name: "weather", input: {} },
      }),
      chunkFrame({ type: "content_block_delta", index: 0, delta: { partial_json: half } }),
      chunkFrame({ type: "content_block_delta", index: 0, delta: { partial_json: rest } }),
      chunkFrame({ type: "message_delta", delta: { stop_reason: "tool_use" }, usage: { output_tokens: 30 } }),
    ]),
    answer: {
      status: 200,
      stop_reason: "tool_use",
      input_tokens: 10,
      output_tokens: 30,
      estimated_cost_micros: 160,
      price_basis: "family",
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "bedrock, converse with both caches",
    host: "bedrock-runtime-fips.us-east-1.amazonaws.com",
    path: "/model/anthropic.claude-sonnet-4-5-20250929-v1:0/converse",
    request: { messages: [{}, {}], toolConfig: { tools }, inferenceConfig: { maxTokens: 9 } },
    expected: {
      provider: "bedrock",
      api_family: "bedrock.converse",
      operation: "converse",
      messages_count: 2,
      tools_count: 1,
    },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      output: { message: { content: [{ text: "…" }, { toolUse: { name: "weather", input: weather } }] } },
      stopReason: "tool_use",
      usage: {
        inputTokens: 100,
        outputTokens: 50,
        cacheReadInputTokens: 2000,
        cacheWriteInputTokens: 1000,
        cacheDetails: [{ ttl: "1h", inputTokens: 400 }],
      },
    }),
    answer: {
      status: 200,
      stop_reason: "tool_use",
      input_tokens: 3100,
      cached_input_tokens: 2000,
      output_tokens: 50,
      estimated_cost_micros: 6300,
      price_basis: "family",
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "bedrock, converse of a model without a price, stream",
    host: "bedrock-runtime.us-east-1.api.aws",
    path: "/model/us.amazon.nova-pro-v1:0/converse-stream",
    request: { messages: [{}] },
    expected: { provider: "bedrock", model: "us.amazon.nova-pro-v1:0", stream: true },
    status: 200,
    content_type: "application/vnd.amazon.eventstream",
    response: joined([
      frame("messageStart", { role: "assistant" }),
      frame("contentBlockStart", { contentBlockIndex: 1, start: { toolUse: { name: "weather" } } }),
      frame("contentBlockDelta", { contentBlockIndex: 1, delta: { toolUse: { input: half } } }),
      frame("contentBlockDelta", { contentBlockIndex: 1, delta: { toolUse: { input: rest } } }),
      frame("messageStop", { stopReason: "tool_use" }),
      frame("metadata", { usage: { inputTokens: 7, outputTokens: 8 } }),
    ]),
    answer: {
      status: 200,
      stop_reason: "tool_use",
      input_tokens: 7,
      output_tokens: 8,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "bedrock, a stream that fails",
    host: BEDROCK,
    path: "/model/meta.llama3-3-70b-instruct-v1:0/invoke-with-response-stream",
    request: { prompt: "hi", max_gen_len: 9 },
    expected: { provider: "bedrock", api_family: "bedrock.invoke" },
    status: 200,
    content_type: "application/vnd.amazon.eventstream",
    response: joined([
      chunkFrame({ generation: "a" }),
      frame("throttlingException", { message: "slower" }, "exception"),
    ]),
    answer: { status: 200, stop_reason: "throttlingException", tool_calls: [] },
  },
  {
    what: "vertex, the global endpoint",
    host: "aiplatform.googleapis.com",
    path: "/v1/projects/p/locations/global/publishers/google/models/gemini-2.5-flash:generateContent",
    request: { contents: [{ parts: [] }] },
    expected: { provider: "google", model: "gemini-2.5-flash", operation: "generateContent", stream: false },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      candidates: [{ finishReason: "STOP" }],
      usageMetadata: { promptTokenCount: 100, candidatesTokenCount: 10 },
    }),
    answer: {
      status: 200,
      stop_reason: "STOP",
      input_tokens: 100,
      output_tokens: 10,
      estimated_cost_micros: 55,
      tool_calls: [],
    },
  },
  {
    what: "vertex, Claude at once",
    host: "aiplatform.us.rep.googleapis.com",
    path: "/v1/projects/p/locations/us/publishers/anthropic/models/claude-haiku-4-5@20251001:rawPredict",
    request: { anthropic_version: "vertex-2023-10-16", max_tokens: 9, messages: [{}] },
    expected: { provider: "google", api_family: "anthropic.messages", stream: false },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      type: "message",
      stop_reason: "end_turn",
      usage: { input_tokens: 10, output_tokens: 30 },
    }),
    answer: {
      status: 200,
      stop_reason: "end_turn",
      input_tokens: 10,
      output_tokens: 30,
      estimated_cost_micros: 160,
      price_basis: "family",
      tool_calls: [],
    },
  },
  {
    what: "azure, a deployment",
    host: "corp.openai.azure.com",
    path: "/openai/deployments/gpt-4o/chat/completions",
    request: { messages: [{}], stream: true },
    expected: { provider: "azure", api_family: "openai.chat", model: "gpt-4o", stream: true },
    status: 200,
    content_type: "text/event-stream",
    response: sse([
      { choices: [{ delta: {}, finish_reason: "stop" }] },
      { choices: [], usage: { prompt_tokens: 5, completion_tokens: 6 } },
    ], { done: true }),
    answer: { status: 200, stop_reason: "stop", input_tokens: 5, output_tokens: 6, tool_calls: [] },
  },
  {
    what: "azure, responses with the deployment in the body",
    host: "corp.openai.azure.com",
    path: "/openai/v1/responses",
    request: { model: "gpt-4o", input: "hi" },
    expected: { provider: "azure", api_family: "openai.responses", model: "gpt-4o" },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      id: "r",
      object: "response",
      status: "completed",
      output: [],
      usage: { input_tokens: 5, output_tokens: 6 },
    }),
    answer: { status: 200, stop_reason: "completed", input_tokens: 5, output_tokens: 6, tool_calls: [] },
  },
];
