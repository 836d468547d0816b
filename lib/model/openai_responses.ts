import type { Answer } from "./answer.ts";
import type { Api } from "./api.ts";
import { count, type Json, list, name, object, text } from "./json.ts";

/** OpenAI's Responses. */
export const openaiResponses: Api = {
  family: "openai.responses",
  operation: "responses",
  path: /\/responses$/,
  modelInBody: true,
  needs: ["input"],
  looksLike: (body) =>
    typeof body.model === "string" && body.messages === undefined &&
    (list(body.input).some((item) =>
      ROLES.has(text(object(item).role)) || ITEMS.has(text(object(item).type))
    ) ||
      (typeof body.input === "string" && ("instructions" in body || "max_output_tokens" in body))),
  request: (body) => ({
    model: name(body.model) ?? "",
    stream: body.stream === true,
    messages_count: typeof body.input === "string" ? 1 : list(body.input).length,
    tools_count: list(body.tools).length,
  }),
  fold(value, answer) {
    const type = text(value.type);
    if (value.object === "response") return response(value, answer);
    if (type === "response.output_item.done") return item(object(value.item), answer);
    if (ENDS.has(type)) return response(object(value.response), answer);
    if (type === "error" || value.error !== undefined) {
      const error = object(value.error ?? value);
      answer.stopReason = name(error.code) ?? name(error.type) ?? "error";
    }
  },
};

const ROLES = new Set(["user", "system", "developer", "assistant"]);
const ITEMS = new Set(["message", "function_call_output", "item_reference"]);
const ENDS = new Set(["response.completed", "response.incomplete", "response.failed"]);

function response(value: Json, answer: Answer): void {
  answer.stopReason = name(object(value.incomplete_details).reason) ?? name(object(value.error).code) ??
    name(value.status) ?? answer.stopReason;
  for (const each of list(value.output)) item(object(each), answer);
  const usage = object(value.usage);
  const input = count(usage.input_tokens);
  const output = count(usage.output_tokens);
  if (input !== undefined) {
    answer.usage.cacheRead = Math.min(count(object(usage.input_tokens_details).cached_tokens) ?? 0, input);
    answer.usage.input = input - answer.usage.cacheRead;
  }
  if (output !== undefined) answer.usage.output = output;
}

/** An item is told once when it is done and once more at the end; its id says that it is the same. */
function item(value: Json, answer: Answer): void {
  const given = CALLS.get(text(value.type));
  if (given === undefined) return;
  const key = name(value.id) ?? name(value.call_id) ?? `${answer.toolCount}`;
  if (answer.hasTool(key)) return;
  answer.tool(key, name(value.name));
  answer.part(key, text(value[given]));
}

/** Kinds of tool calls, and the field with their arguments. */
const CALLS = new Map([["function_call", "arguments"], ["custom_tool_call", "input"], [
  "mcp_call",
  "arguments",
]]);
