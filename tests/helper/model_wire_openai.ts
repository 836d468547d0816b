/** Calls in the two formats of OpenAI. */
import { half, rest, sse, weather, type WireSample } from "./model_sample.ts";

export const OPENAI_WIRE: WireSample[] = [
  {
    what: "openai chat, whole",
    host: "api.openai.com",
    path: "/v1/chat/completions",
    request: { model: "gpt-4o-2024-08-06", messages: [{ role: "user", content: "hi" }], tools: [{}, {}] },
    expected: {
      provider: "openai",
      api_family: "openai.chat",
      operation: "chat.completions",
      stream: false,
      messages_count: 1,
      tools_count: 2,
    },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify(
      {
        object: "chat.completion",
        choices: [{
          index: 0,
          message: {
            role: "assistant",
            content: null,
            tool_calls: [{
              id: "call_1",
              type: "function",
              function: { name: "weather", arguments: half + rest },
            }],
          },
          finish_reason: "tool_calls",
        }],
        usage: { prompt_tokens: 1000, completion_tokens: 20, prompt_tokens_details: { cached_tokens: 400 } },
      },
      null,
      2,
    ),
    answer: {
      status: 200,
      stop_reason: "tool_calls",
      input_tokens: 1000,
      cached_input_tokens: 400,
      output_tokens: 20,
      // 600·2.5 + 400·1.25 + 20·10
      estimated_cost_micros: 2200,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "openai chat, stream of a server that nobody knows, lines end in CR LF",
    host: "llm.internal.example",
    path: "/v1/chat/completions",
    request: {
      model: "qwen3-coder",
      stream: true,
      messages: [{ role: "system", content: "" }, { role: "user" }],
    },
    expected: {
      provider: "unknown",
      api_family: "openai.chat",
      model: "qwen3-coder",
      stream: true,
      messages_count: 2,
    },
    status: 200,
    content_type: "text/event-stream",
    response: sse([
      { object: "chat.completion.chunk", choices: [{ index: 0, delta: { role: "assistant", content: "" } }] },
      {
        choices: [{
          index: 0,
          delta: { tool_calls: [{ index: 0, id: "a", function: { name: "weather", arguments: "" } }] },
        }],
      },
      { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: half } }] } }] },
      {
        choices: [{
          index: 0,
          delta: { tool_calls: [{ index: 1, id: "b", function: { name: "time", arguments: "{}" } }] },
        }],
      },
      { choices: [{ index: 0, delta: { tool_calls: [{ index: 0, function: { arguments: rest } }] } }] },
      { choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
      { choices: [], usage: { prompt_tokens: 7, completion_tokens: 5 } },
    ], { end: "\r\n", done: true }),
    answer: {
      status: 200,
      stop_reason: "tool_calls",
      input_tokens: 7,
      output_tokens: 5,
      tool_calls: [{ name: "weather", arguments: weather }, { name: "time", arguments: {} }],
    },
  },
  {
    what: "openai responses, stream",
    host: "api.openai.com",
    path: "/v1/responses",
    request: {
      model: "gpt-5-codex",
      stream: true,
      instructions: "…",
      input: [{ role: "user" }, { type: "message" }],
      tools: [{}],
    },
    expected: {
      api_family: "openai.responses",
      operation: "responses",
      stream: true,
      messages_count: 2,
      tools_count: 1,
    },
    status: 200,
    content_type: "text/event-stream",
    response: sse([
      { type: "response.created", response: { object: "response", status: "in_progress", output: [] } },
      { type: "response.function_call_arguments.delta", item_id: "fc_1", delta: half },
      {
        type: "response.output_item.done",
        item: { id: "fc_1", type: "function_call", name: "weather", arguments: half + rest },
      },
      {
        type: "response.completed",
        response: {
          object: "response",
          status: "completed",
          output: [
            { id: "rs_1", type: "reasoning" },
            { id: "fc_1", type: "function_call", name: "weather", arguments: half + rest },
          ],
          usage: { input_tokens: 200, input_tokens_details: { cached_tokens: 100 }, output_tokens: 10 },
        },
      },
    ], { named: true }),
    answer: {
      status: 200,
      stop_reason: "completed",
      input_tokens: 200,
      cached_input_tokens: 100,
      output_tokens: 10,
      // 100·1.25 + 100·0.125 + 10·10 = 237.5
      estimated_cost_micros: 238,
      tool_calls: [{ name: "weather", arguments: weather }],
    },
  },
  {
    what: "openai responses, whole and cut short by its limit",
    host: "api.openai.com",
    path: "/v1/responses",
    request: { model: "gpt-4.1-mini", input: "tell me" },
    expected: { messages_count: 1, stream: false },
    status: 200,
    content_type: "application/json",
    response: JSON.stringify({
      object: "response",
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      error: null,
      output: [{ type: "custom_tool_call", call_id: "c", name: "patch", input: "*** Begin" }],
      usage: { input_tokens: 10, output_tokens: 100 },
    }),
    answer: {
      status: 200,
      stop_reason: "max_output_tokens",
      input_tokens: 10,
      output_tokens: 100,
      estimated_cost_micros: 164,
      tool_calls: [{ name: "patch", arguments: "*** Begin" }],
    },
  },
];
