import type { Answer } from "./answer.ts";
import type { Api } from "./api.ts";
import { count, type Json, list, name, object, text } from "./json.ts";

/** OpenAI's Chat Completions, which most other providers and servers speak too; with the older Completions. */
export const openaiChat: Api = {
  family: "openai.chat",
  operation: "chat.completions",
  path: /(?:\/deployments\/([^/]+))?\/(?:chat\/)?completions$/,
  modelInBody: true,
  needs: ["messages", "prompt"],
  looksLike: (body) =>
    typeof body.model === "string" &&
    list(body.messages).some((message) => name(object(message).role) !== undefined),
  request: (body, match) => ({
    model: name(body.model) ?? match?.[1] ?? "",
    stream: body.stream === true,
    messages_count: body.prompt === undefined ? list(body.messages).length : 1,
    tools_count: list(body.tools).length + list(body.functions).length,
  }),
  fold(value, answer) {
    if (value.error !== undefined) {
      const error = object(value.error);
      answer.stopReason = name(error.code) ?? name(error.type) ?? "error";
    }
    for (const [at, each] of list(value.choices).entries()) choice(at, object(each), answer);
    chatUsage(object(value.usage), answer);
  },
};

function choice(at: number, value: Json, answer: Answer): void {
  answer.stopReason = name(value.finish_reason) ?? answer.stopReason;
  const index = count(value.index) ?? at;
  const isStream = value.delta !== undefined;
  const message = object(isStream ? value.delta : value.message);
  const calls = list(message.tool_calls);
  for (const [place, each] of calls.entries()) {
    const call = object(each);
    const key = `${index}.${count(call.index) ?? place}`;
    // A custom tool has text for input where a function has JSON.
    const called = call.custom === undefined ? object(call.function) : object(call.custom);
    answer.tool(key, name(called.name));
    answer.part(key, text(called.arguments) || text(called.input));
  }
  const legacy = object(message.function_call);
  if (message.function_call !== undefined) {
    answer.tool(`${index}`, name(legacy.name));
    answer.part(`${index}`, text(legacy.arguments));
  }
}

/** OpenAI counts what came from its cache among the input. */
function chatUsage(given: Json, answer: Answer): void {
  const input = count(given.prompt_tokens);
  const output = count(given.completion_tokens);
  const cached = count(object(given.prompt_tokens_details).cached_tokens);
  if (input !== undefined) {
    answer.usage.cacheRead = Math.min(cached ?? 0, input);
    answer.usage.input = input - answer.usage.cacheRead;
  }
  if (output !== undefined) answer.usage.output = output;
}
