import { readUsage } from "./openai_responses.ts";
import type { Api } from "./api.ts";
import { type Json, listOf, nameOf, objectOf, textOf } from "./json.ts";
import type { ResponseFacts } from "./response_facts.ts";

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
