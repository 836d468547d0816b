import { type Api, countTools, type ResponseFacts } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf, textOf } from "./json.ts";

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
function readUsage(usage: Json, details: Json, facts: ResponseFacts): void {
  const input = countOf(usage.input_tokens);
  const output = countOf(usage.output_tokens);
  if (input !== undefined) {
    facts.usage.cacheRead = Math.min(countOf(details.cached_tokens) ?? 0, input);
    facts.usage.input = input - facts.usage.cacheRead;
  }
  if (output !== undefined) facts.usage.output = output;
}

/**
 * Reads an output item. A stream repeats each item in the final response; its id identifies the repetition.
 */
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

/** OpenAI's Realtime API over a WebSocket: its events `response.create` and `response.done`. */
export const openaiRealtime: Api = {
  family: "openai.realtime",
  operation: "realtime",
  path: /\/realtime$/i,
  // The connection or its session names the model.
  modelInBody: false,
  needs: ["type"],
  looksLike: () => false,
  readRequest(body) {
    const response = objectOf(body.response);
    return {
      model: "",
      stream: true,
      messages_count: listOf(response.input).length,
      tools_count: listOf(response.tools).length,
    };
  },
  readResponse(value, facts) {
    if (value.type === "error") {
      const error = objectOf(value.error);
      facts.stopReason = nameOf(error.code) ?? nameOf(error.type) ?? "error";
    } else if (value.type === "response.done") readDone(objectOf(value.response), facts);
  },
};

function readDone(response: Json, facts: ResponseFacts): void {
  const details = objectOf(response.status_details);
  facts.stopReason = nameOf(details.reason) ?? nameOf(objectOf(details.error).code) ??
    nameOf(response.status);
  for (const [at, output] of listOf(response.output).entries()) {
    const item = objectOf(output);
    if (item.type !== "function_call" && item.type !== "mcp_call") continue;
    facts.addTool(`${at}`, nameOf(item.name));
    facts.appendArguments(`${at}`, textOf(item.arguments));
  }
  const usage = objectOf(response.usage);
  readUsage(usage, objectOf(usage.input_token_details), facts);
}

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
    readChatUsage(objectOf(value.usage), facts);
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
function readChatUsage(usage: Json, facts: ResponseFacts): void {
  const input = countOf(usage.prompt_tokens);
  const output = countOf(usage.completion_tokens);
  const cached = countOf(objectOf(usage.prompt_tokens_details).cached_tokens);
  if (input !== undefined) {
    facts.usage.cacheRead = Math.min(cached ?? 0, input);
    facts.usage.input = input - facts.usage.cacheRead;
  }
  if (output !== undefined) facts.usage.output = output;
}
