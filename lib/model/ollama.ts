import type { Answer } from "./answer.ts";
import type { Api } from "./api.ts";
import { count, type Json, list, name, object } from "./json.ts";

/** What Ollama's two ways of asking have in common: lines of JSON, the last of which has the counts. */
function fold(value: Json, answer: Answer): void {
  if (value.error !== undefined) answer.stopReason = "error";
  for (const each of list(object(value.message).tool_calls)) {
    const called = object(object(each).function);
    answer.tool(`${answer.toolCount}`, name(called.name), called.arguments);
  }
  if (value.done !== true) return;
  answer.stopReason = name(value.done_reason) ?? "stop";
  const input = count(value.prompt_eval_count);
  const output = count(value.eval_count);
  if (input !== undefined) answer.usage.input = input;
  if (output !== undefined) answer.usage.output = output;
}

/** Options that no other provider has. */
function hasOptions(body: Json): boolean {
  return typeof body.options === "object" || "keep_alive" in body;
}

export const ollamaChat: Api = {
  family: "ollama.chat",
  operation: "chat",
  path: /\/api\/chat$/,
  modelInBody: true,
  needs: ["messages"],
  looksLike: (body) => typeof body.model === "string" && Array.isArray(body.messages) && hasOptions(body),
  request: (body) => ({
    model: name(body.model) ?? "",
    // Ollama streams unless it is told not to.
    stream: body.stream !== false,
    messages_count: list(body.messages).length,
    tools_count: list(body.tools).length,
  }),
  fold,
};

export const ollamaGenerate: Api = {
  family: "ollama.generate",
  operation: "generate",
  path: /\/api\/generate$/,
  modelInBody: true,
  needs: ["prompt"],
  looksLike: (body) => typeof body.model === "string" && typeof body.prompt === "string" && hasOptions(body),
  request: (body) => ({
    model: name(body.model) ?? "",
    stream: body.stream !== false,
    messages_count: 1,
    tools_count: 0,
  }),
  fold,
};
