import type { Answer } from "./answer.ts";
import type { Api } from "./api.ts";
import { count, type Json, list, name, object, text } from "./json.ts";

/** Anthropic's Messages, also where other clouds host it. */
export const anthropic: Api = {
  family: "anthropic.messages",
  operation: "messages",
  path: /\/v1\/messages$|\/publishers\/anthropic\/models\/([^/:]+):(?:rawPredict|streamRawPredict)$/,
  modelInBody: true,
  needs: ["messages"],
  looksLike(body) {
    return typeof body.max_tokens === "number" && Array.isArray(body.messages) &&
      (body.system !== undefined || "anthropic_version" in body || list(body.tools).some(hasInputSchema) ||
        list(body.messages).some(hasBlocks));
  },
  request: (body, match) => ({
    model: name(body.model) ?? match?.[1] ?? "",
    stream: body.stream === true || (match?.[0].endsWith(":streamRawPredict") ?? false),
    messages_count: list(body.messages).length,
    tools_count: list(body.tools).length,
  }),
  fold(value, answer) {
    switch (value.type) {
      case "message":
        return whole(value, answer);
      case "message_start":
        return whole(object(value.message), answer);
      case "content_block_start":
        return block(`${value.index}`, object(value.content_block), answer);
      case "content_block_delta":
        return answer.part(`${value.index}`, text(object(value.delta).partial_json));
      case "message_delta":
        answer.stopReason = name(object(value.delta).stop_reason) ?? answer.stopReason;
        return usage(object(value.usage), answer);
      case "error":
        answer.stopReason = name(object(value.error).type) ?? "error";
    }
  },
};

const TOOL_USE = new Set(["tool_use", "server_tool_use", "mcp_tool_use"]);
const BLOCKS = new Set(["tool_use", "tool_result", "thinking", "document"]);

function whole(message: Json, answer: Answer): void {
  answer.stopReason = name(message.stop_reason) ?? answer.stopReason;
  usage(object(message.usage), answer);
  for (const [at, each] of list(message.content).entries()) block(`${at}`, object(each), answer);
}

function block(key: string, content: Json, answer: Answer): void {
  if (typeof content.type === "string" && TOOL_USE.has(content.type)) {
    answer.tool(key, name(content.name), content.input);
  }
}

/** The later of two reports holds: the counts of a stream are cumulative. */
function usage(given: Json, answer: Answer): void {
  const long = count(object(given.cache_creation).ephemeral_1h_input_tokens);
  const written = count(given.cache_creation_input_tokens);
  const counts = {
    input: count(given.input_tokens),
    output: count(given.output_tokens),
    cacheRead: count(given.cache_read_input_tokens),
    cacheWrite: written === undefined ? undefined : Math.max(0, written - (long ?? 0)),
    cacheWriteLong: long,
  };
  for (const [key, tokens] of Object.entries(counts)) {
    if (tokens !== undefined) answer.usage[key as keyof typeof counts] = tokens;
  }
}

function hasInputSchema(tool: unknown): boolean {
  return object(tool).input_schema !== undefined;
}

function hasBlocks(message: unknown): boolean {
  return list(object(message).content).some((each) => BLOCKS.has(text(object(each).type)));
}
