import type { Api } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf, textOf } from "./json.ts";
import type { ResponseFacts } from "./response_facts.ts";
import { countTools } from "./tools.ts";

/** OpenAI's Responses API. */
export const openaiResponses: Api = {
  family: "openai.responses",
  operation: "responses",
  path: /\/responses$/i,
  modelInBody: true,
  needs: ["input"],
  looksLike: (body) =>
    typeof body.model === "string" && body.messages === undefined &&
    (listOf(body.input).some((item) =>
      ROLES.has(textOf(objectOf(item).role)) || ITEMS.has(textOf(objectOf(item).type))
    ) ||
      (typeof body.input === "string" && ("instructions" in body || "max_output_tokens" in body))),
  readRequest: (body) => ({
    model: nameOf(body.model) ?? "",
    stream: body.stream === true,
    messages_count: typeof body.input === "string" ? 1 : listOf(body.input).length,
    tools_count: countTools(body),
  }),
  readResponse(value, facts) {
    const type = textOf(value.type);
    if (value.object === "response") return readFinalResponse(value, facts);
    if (type === "response.output_item.done") return readItem(objectOf(value.item), facts);
    if (BEGINS.has(type)) return readAnswer(objectOf(value.response), facts);
    if (ENDS.has(type)) return readFinalResponse(objectOf(value.response), facts);
    if (type === "error" || value.error !== undefined) {
      const error = objectOf(value.error ?? value);
      facts.stopReason = nameOf(error.code) ?? nameOf(error.type) ?? "error";
    }
  },
};

const ROLES = new Set(["user", "system", "developer", "assistant"]);
const ITEMS = new Set(["message", "function_call_output", "item_reference"]);
const BEGINS = new Set(["response.created", "response.queued", "response.in_progress"]);
const ENDS = new Set(["response.completed", "response.incomplete", "response.failed"]);

/** States of a response whose tokens are not counted yet. */
const PENDING = new Set(["queued", "in_progress"]);

function readAnswer({ id, status }: Json, facts: ResponseFacts): void {
  const name = nameOf(id);
  if (name !== undefined) facts.answer = { id: name, pending: PENDING.has(textOf(status)) };
}

function readFinalResponse(value: Json, facts: ResponseFacts): void {
  facts.stopReason = nameOf(objectOf(value.incomplete_details).reason) ??
    nameOf(objectOf(value.error).code) ??
    nameOf(value.status) ?? facts.stopReason;
  facts.tier = nameOf(value.service_tier) ?? facts.tier;
  readAnswer(value, facts);
  for (const item of listOf(value.output)) readItem(objectOf(item), facts);
  const usage = objectOf(value.usage);
  readUsage(usage, objectOf(usage.input_tokens_details), facts);
}

/** Reads counts of tokens. @param details of the input; the APIs differ in the name of their field */
export function readUsage(usage: Json, details: Json, facts: ResponseFacts): void {
  const input = countOf(usage.input_tokens);
  const output = countOf(usage.output_tokens);
  if (input !== undefined) {
    facts.usage.cacheRead = Math.min(countOf(details.cached_tokens) ?? 0, input);
    facts.usage.input = input - facts.usage.cacheRead;
  }
  if (output !== undefined) facts.usage.output = output;
}

/** Reads an output item. A stream repeats each item in the final response; its id identifies the repetition. */
function readItem(value: Json, facts: ResponseFacts): void {
  const argumentsField = ARGUMENTS_FIELDS.get(textOf(value.type));
  if (argumentsField === undefined) return;
  const key = nameOf(value.id) ?? nameOf(value.call_id) ?? `${facts.toolCount}`;
  if (facts.hasTool(key)) return;
  facts.addTool(key, nameOf(value.name));
  facts.appendArguments(key, textOf(value[argumentsField]));
}

/** Field with the arguments, by item type of a tool call. */
const ARGUMENTS_FIELDS = new Map([
  ["function_call", "arguments"],
  ["custom_tool_call", "input"],
  ["mcp_call", "arguments"],
]);
