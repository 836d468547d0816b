import type { Api, ResponseFacts } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf, textOf } from "./json.ts";

/** Anthropic's Messages API, also as hosted by other clouds. */
export const anthropic: Api = {
  family: "anthropic.messages",
  operation: "messages",
  path:
    /\/v1\/messages$|\/publishers\/anthropic\/models\/(?!count-tokens:)([^/:]+):(?:rawPredict|streamRawPredict)$/i,
  modelInBody: true,
  needs: ["messages"],
  looksLike(body) {
    return typeof body.max_tokens === "number" && Array.isArray(body.messages) &&
      (body.system !== undefined || "anthropic_version" in body || listOf(body.tools).some(hasInputSchema) ||
        listOf(body.messages).some(hasBlocks));
  },
  readRequest: (body, match) => ({
    model: nameOf(body.model) ?? match?.[1] ?? "",
    stream: body.stream === true || (match?.[0].endsWith(":streamRawPredict") ?? false),
    messages_count: listOf(body.messages).length,
    tools_count: listOf(body.tools).length,
  }),
  readResponse(value, facts) {
    switch (value.type) {
      case "message":
        return readMessage(value, facts);
      case "message_start":
        facts.isOpen = true;
        return readMessage(objectOf(value.message), facts);
      case "content_block_start":
        return readBlock(`${value.index}`, objectOf(value.content_block), facts);
      case "content_block_delta":
        return facts.appendArguments(`${value.index}`, textOf(objectOf(value.delta).partial_json));
      case "message_delta":
        facts.isOpen = false;
        facts.stopReason = nameOf(objectOf(value.delta).stop_reason) ?? facts.stopReason;
        return readUsage(objectOf(value.usage), facts);
      case "error":
        facts.stopReason = nameOf(objectOf(value.error).type) ?? "error";
    }
  },
};

const TOOL_USE = new Set(["tool_use", "server_tool_use", "mcp_tool_use"]);
const BLOCKS = new Set(["tool_use", "tool_result", "thinking", "document"]);

function readMessage(message: Json, facts: ResponseFacts): void {
  facts.stopReason = nameOf(message.stop_reason) ?? facts.stopReason;
  readUsage(objectOf(message.usage), facts);
  for (const [at, block] of listOf(message.content).entries()) readBlock(`${at}`, objectOf(block), facts);
}

function readBlock(key: string, content: Json, facts: ResponseFacts): void {
  if (typeof content.type === "string" && TOOL_USE.has(content.type)) {
    facts.addTool(key, nameOf(content.name), content.input);
  }
}

/** Reads token counts. Counts of a stream are cumulative, so later ones replace earlier ones. */
function readUsage(usage: Json, facts: ResponseFacts): void {
  const speed = nameOf(usage.speed);
  facts.tier = speed !== undefined && speed !== "standard" ? speed : nameOf(usage.service_tier) ?? facts.tier;
  const longCacheWrites = countOf(objectOf(usage.cache_creation).ephemeral_1h_input_tokens);
  const cacheWrites = countOf(usage.cache_creation_input_tokens);
  const counts = {
    input: countOf(usage.input_tokens),
    output: countOf(usage.output_tokens),
    cacheRead: countOf(usage.cache_read_input_tokens),
    cacheWrite: cacheWrites === undefined ? undefined : Math.max(0, cacheWrites - (longCacheWrites ?? 0)),
    cacheWriteLong: longCacheWrites,
  };
  for (const [key, tokens] of Object.entries(counts)) {
    if (tokens !== undefined) facts.usage[key as keyof typeof counts] = tokens;
  }
}

function hasInputSchema(tool: unknown): boolean {
  return objectOf(tool).input_schema !== undefined;
}

function hasBlocks(message: unknown): boolean {
  return listOf(objectOf(message).content).some((block) => BLOCKS.has(textOf(objectOf(block).type)));
}
