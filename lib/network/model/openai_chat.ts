import type { Api } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf, textOf } from "./json.ts";
import type { ResponseFacts } from "./response_facts.ts";

/** OpenAI's Chat Completions, which most other providers also offer, and the older Completions. */
export const openaiChat: Api = {
  family: "openai.chat",
  operation: "chat.completions",
  path: /(?:\/deployments\/([^/]+))?\/(?:chat\/)?completions$/i,
  modelInBody: true,
  needs: ["messages", "prompt"],
  looksLike: (body) =>
    typeof body.model === "string" &&
    listOf(body.messages).some((message) => nameOf(objectOf(message).role) !== undefined),
  readRequest: (body, match) => ({
    model: nameOf(body.model) ?? match?.[1] ?? "",
    stream: body.stream === true,
    messages_count: body.prompt === undefined ? listOf(body.messages).length : 1,
    tools_count: listOf(body.tools).length + listOf(body.functions).length,
  }),
  readResponse(value, facts) {
    if (value.error !== undefined) {
      const error = objectOf(value.error);
      facts.stopReason = nameOf(error.code) ?? nameOf(error.type) ?? "error";
    }
    for (const [at, choice] of listOf(value.choices).entries()) readChoice(at, objectOf(choice), facts);
    facts.tier = nameOf(value.service_tier) ?? facts.tier;
    readUsage(objectOf(value.usage), facts);
  },
};

function readChoice(at: number, value: Json, facts: ResponseFacts): void {
  facts.stopReason = nameOf(value.finish_reason) ?? facts.stopReason;
  const index = countOf(value.index) ?? at;
  const isStream = value.delta !== undefined;
  const message = objectOf(isStream ? value.delta : value.message);
  const calls = listOf(message.tool_calls);
  for (const [position, value] of calls.entries()) {
    const call = objectOf(value);
    const key = `${index}.${countOf(call.index) ?? position}`;
    // A custom tool has text as input; a function has JSON.
    const tool = call.custom === undefined ? objectOf(call.function) : objectOf(call.custom);
    facts.addTool(key, nameOf(tool.name));
    facts.appendArguments(key, textOf(tool.arguments) || textOf(tool.input));
  }
  const legacy = objectOf(message.function_call);
  if (message.function_call !== undefined) {
    facts.addTool(`${index}`, nameOf(legacy.name));
    facts.appendArguments(`${index}`, textOf(legacy.arguments));
  }
}

/** Reads token counts; OpenAI includes cached tokens in the input. */
function readUsage(usage: Json, facts: ResponseFacts): void {
  const input = countOf(usage.prompt_tokens);
  const output = countOf(usage.completion_tokens);
  const cached = countOf(objectOf(usage.prompt_tokens_details).cached_tokens);
  if (input !== undefined) {
    facts.usage.cacheRead = Math.min(cached ?? 0, input);
    facts.usage.input = input - facts.usage.cacheRead;
  }
  if (output !== undefined) facts.usage.output = output;
}
