/** Scripted model providers: the first answer runs a command with the agent's own tool, the next one ends. */

import type { Parsed } from "../helper/json.ts";

/** The command that every agent runs: it mends the program, and commits once its test passes. */
export const WORK =
  `sed -i 's/a - b/a + b/' calc.py && python3 test_calc.py && git commit -qam "Add, do not subtract"`;
export const DONE = "The test passes.";

/** End of a stream of OpenAI's older form. */
const END = "[DONE]";

/** Names of the tool by which an agent runs commands. */
const SHELL = /^(bash|shell|execute|execute_bash|execute_command|run_commands?|run_shell_command)$/i;

/** JSON Schema of a tool's input, as far as it is read here. */
interface InputSchema {
  properties?: Record<string, { type?: string }>;
  required?: string[];
}

/**
 * Input of such a tool that runs {@linkcode WORK}; tools have their own names
 * for a command, and require more.
 */
function workInput({ properties = {}, required = [] }: InputSchema = {}): Record<string, unknown> {
  const input: Record<string, unknown> = {};
  for (const [name, { type }] of Object.entries(properties)) {
    if (/^(command|commands|cmd)$/.test(name)) input[name] = type === "array" ? [WORK] : WORK;
    else if (name === "description") input[name] = "Mend the program";
    else if (required.includes(name) && type === "boolean") input[name] = false;
  }
  return input;
}

/** Answers a request as the provider of its host would. */
export function answerAsProvider(request: Request, body: string): Response {
  const { hostname, pathname } = new URL(request.url);
  if (hostname === "api.anthropic.com") return anthropic(pathname, body);
  if (hostname === "api.openai.com") return openai(pathname, body);
  if (hostname === "chatgpt.com") return chatgpt(pathname, body);
  if (hostname === "generativelanguage.googleapis.com") return google(pathname, JSON.parse(body || "{}"));
  if (hostname === "cloudcode-pa.googleapis.com") return codeAssist(pathname, JSON.parse(body || "{}"));
  if (pathname === "/oauth2/v2/userinfo") return Response.json({ id: "1", email: "alice@example.com" });
  if (pathname === "/tokeninfo") return Response.json({ aud: "gemini", scope: "openid", expires_in: 3600 });
  return new Response("{}", { headers: { "content-type": "application/json" } });
}

function sse(events: [string | undefined, unknown][]): Response {
  const text = events.map(([name, data]) =>
    `${name ? `event: ${name}\n` : ""}data: ${data === END ? END : JSON.stringify(data)}\n\n`
  );
  return new Response(text.join(""), { headers: { "content-type": "text/event-stream" } });
}

function anthropic(pathname: string, text: string): Response {
  if (pathname === "/v1/messages/count_tokens") return Response.json({ input_tokens: 10 });
  if (pathname !== "/v1/messages") return Response.json({});
  const { tools = [], model, stream } = JSON.parse(text);
  const tool = tools.find(({ name }: { name: string }) => SHELL.test(name));
  const isFirst = tool && !text.includes('"tool_result"');
  const input = workInput(tool?.input_schema);
  const usage = { input_tokens: 1000, output_tokens: 50 };
  const content = isFirst
    ? { type: "tool_use", id: "toolu_01", name: tool.name, input }
    : { type: "text", text: DONE };
  const stop_reason = isFirst ? "tool_use" : "end_turn";
  const message = { id: "msg_01", type: "message", role: "assistant", model, content: [], usage };
  if (!stream) return Response.json({ ...message, content: [content], stop_reason });
  const start = isFirst ? { ...content, input: {} } : { ...content, text: "" };
  const delta = isFirst
    ? { type: "input_json_delta", partial_json: JSON.stringify(input) }
    : { type: "text_delta", text: DONE };
  return sse([
    ["message_start", { type: "message_start", message }],
    ["content_block_start", { type: "content_block_start", index: 0, content_block: start }],
    ["content_block_delta", { type: "content_block_delta", index: 0, delta }],
    ["content_block_stop", { type: "content_block_stop", index: 0 }],
    ["message_delta", { type: "message_delta", delta: { stop_reason }, usage: { output_tokens: 50 } }],
    ["message_stop", { type: "message_stop" }],
  ]);
}

/** Answers as a service of models on the host does. */
export async function answerAsLocal(request: Request): Promise<Response> {
  const { pathname } = new URL(request.url);
  if (pathname === "/v1/models") {
    return Response.json({ object: "list", data: [{ id: "qwen3-coder:latest" }] });
  }
  return completion(await request.text());
}

/** Answers in OpenAI's older form. */
function completion(text: string): Response {
  const { tools = [], model, stream } = JSON.parse(text);
  const functions: { name: string; parameters?: InputSchema }[] = tools.map((
    { function: each }: { function: { name: string } },
  ) => each);
  const tool = functions.find(({ name }) => SHELL.test(name));
  const isFirst = tool !== undefined && !text.includes('"tool_call_id"');
  const args = JSON.stringify(workInput(tool?.parameters));
  const call = { index: 0, id: "call_1", type: "function", function: { name: tool?.name, arguments: args } };
  const work = isFirst ? { tool_calls: [call] } : { content: DONE };
  const counted = { prompt_tokens: 1000, completion_tokens: 50, total_tokens: 1050 };
  if (!stream) {
    const message = { role: "assistant", content: null, ...work };
    const choices = [{ index: 0, message, finish_reason: isFirst ? "tool_calls" : "stop" }];
    return Response.json({
      id: "c_1",
      object: "chat.completion",
      created: 1,
      model,
      choices,
      usage: counted,
    });
  }
  const chunk = (delta: object, finish_reason: string | null, usage?: object): [undefined, unknown] => [
    undefined,
    {
      id: "c_1",
      object: "chat.completion.chunk",
      created: 1,
      model,
      choices: [{ index: 0, delta, finish_reason }],
      ...usage && { usage },
    },
  ];
  return sse([
    chunk({ role: "assistant", ...work }, null),
    chunk({}, isFirst ? "tool_calls" : "stop", counted),
    [undefined, END],
  ]);
}

function openai(pathname: string, text: string): Response {
  if (pathname.endsWith("/chat/completions")) return completion(text);
  if (!pathname.endsWith("/responses")) return Response.json({ object: "list", data: [], models: [] });
  const { input = [] } = JSON.parse(text);
  // Its tools stand among the input; the names of fields stand in instructions too.
  const types: (string | undefined)[] = input.map(({ type }: { type?: string }) => type);
  const isFirst = types.includes("additional_tools") && !types.some((type) => type?.endsWith("_call_output"));
  const script = `text(await tools.exec_command(${JSON.stringify({ cmd: WORK })}));`;
  const item = isFirst
    ? {
      type: "custom_tool_call",
      id: "c_1",
      call_id: "call_1",
      name: "exec",
      namespace: "functions",
      input: script,
    }
    : { type: "message", id: "m_1", role: "assistant", content: [{ type: "output_text", text: DONE }] };
  const usage = {
    input_tokens: 1000,
    input_tokens_details: { cached_tokens: 0 },
    output_tokens: 50,
    output_tokens_details: { reasoning_tokens: 0 },
    total_tokens: 1050,
  };
  const response = { id: "resp_1", object: "response", status: "completed", output: [item], usage };
  return sse([
    ["response.created", { type: "response.created", response: { id: "resp_1", status: "in_progress" } }],
    ["response.output_item.done", { type: "response.output_item.done", output_index: 0, item }],
    ["response.completed", { type: "response.completed", response }],
  ]);
}

/** OpenAI's models for people who pay by subscription, as Codex 0.169.0 reads them. */
function chatgpt(pathname: string, text: string): Response {
  if (pathname !== "/backend-api/wham/accounts/check") return openai(pathname, text);
  const id = "account-of-alice";
  return Response.json({
    accounts: [{
      id,
      structure: "personal",
      plan_type: "plus",
      workspace_backend_origin: "https://chatgpt.com",
      account_routing_override: "us",
    }],
    account_ordering: [id],
    default_account_id: id,
  });
}

/** Google's models for people with a Google account, as the Gemini CLI 0.61.0 reads them. */
function codeAssist(pathname: string, body: Parsed): Response {
  if (pathname.endsWith(":loadCodeAssist")) {
    const tier = { id: "free-tier", name: "Free", isDefault: true };
    return Response.json({ currentTier: tier, allowedTiers: [tier], cloudaicompanionProject: "project" });
  }
  return pathname.toLowerCase().endsWith("generatecontent")
    ? google(pathname, body.request, (response) => ({ response }))
    : Response.json({});
}

/** @param wrap puts an answer into its envelope */
function google(
  pathname: string,
  body: Parsed,
  wrap: (answer: object) => object = (answer) => answer,
): Response {
  const { tools = [], contents = [], generationConfig = {} } = body;
  const names = tools.flatMap((
    { functionDeclarations = [] }: { functionDeclarations?: { name: string }[] },
  ) => functionDeclarations.map(({ name }) => name));
  const isFirst = names.includes("run_shell_command") &&
    !contents.some(({ parts = [] }: { parts?: object[] }) =>
      parts.some((part) => "functionResponse" in part)
    );
  // It has a small model say how hard the task is.
  const isRated = generationConfig.responseMimeType === "application/json";
  const rating = JSON.stringify({
    ...{ complexity_reasoning: "one line", complexity_score: 10 },
    ...{ reasoning: "one line", model_choice: "flash" },
  });
  const part = isFirst
    ? { functionCall: { name: "run_shell_command", args: { command: WORK } } }
    : { text: isRated ? rating : DONE };
  const answer = wrap({
    candidates: [{ content: { role: "model", parts: [part] }, finishReason: "STOP", index: 0 }],
    usageMetadata: { promptTokenCount: 1000, candidatesTokenCount: 50, totalTokenCount: 1050 },
  });
  return pathname.includes("stream") ? sse([[undefined, answer]]) : Response.json(answer);
}
