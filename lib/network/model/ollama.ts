import type { Api, ResponseFacts } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf } from "./json.ts";

/** Reads a response of either Ollama API: lines of JSON; the last one has the token counts. */
function readResponse(value: Json, facts: ResponseFacts): void {
  if (value.error !== undefined) facts.stopReason = "error";
  for (const call of listOf(objectOf(value.message).tool_calls)) {
    const { name, arguments: args } = objectOf(objectOf(call).function);
    facts.addTool(`${facts.toolCount}`, nameOf(name), args);
  }
  if (value.done !== true) return;
  facts.stopReason = nameOf(value.done_reason) ?? "stop";
  const input = countOf(value.prompt_eval_count);
  const output = countOf(value.eval_count);
  if (input !== undefined) facts.usage.input = input;
  if (output !== undefined) facts.usage.output = output;
}

/** Checks for request keys that no other provider has. */
function hasOptions(body: Json): boolean {
  return typeof body.options === "object" || "keep_alive" in body;
}

export const ollamaChat: Api = {
  family: "ollama.chat",
  operation: "chat",
  path: /\/api\/chat$/i,
  modelInBody: true,
  needs: ["messages"],
  looksLike: (body) => typeof body.model === "string" && Array.isArray(body.messages) && hasOptions(body),
  readRequest: (body) => ({
    model: nameOf(body.model) ?? "",
    // Ollama streams by default.
    stream: body.stream !== false,
    messages_count: listOf(body.messages).length,
    tools_count: listOf(body.tools).length,
  }),
  readResponse,
};

export const ollamaGenerate: Api = {
  family: "ollama.generate",
  operation: "generate",
  path: /\/api\/generate$/i,
  modelInBody: true,
  needs: ["prompt"],
  looksLike: (body) => typeof body.model === "string" && typeof body.prompt === "string" && hasOptions(body),
  readRequest: (body) => ({
    model: nameOf(body.model) ?? "",
    stream: body.stream !== false,
    messages_count: 1,
    tools_count: 0,
  }),
  readResponse,
};
