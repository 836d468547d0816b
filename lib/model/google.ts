import type { Answer } from "./answer.ts";
import type { Api } from "./api.ts";
import { count, type Json, list, name, object } from "./json.ts";

/** Google's generateContent, of the Gemini API and of Vertex AI. */
export const google: Api = {
  family: "google.generate_content",
  operation: "generateContent",
  path: /\/(?:models|tunedModels|endpoints)\/([^/:]+):(generateContent|streamGenerateContent)$/,
  modelInBody: false,
  needs: ["contents"],
  looksLike: (body) => list(body.contents).some((content) => Array.isArray(object(content).parts)),
  request: (body, match) => ({
    model: match?.[1] ?? name(body.model) ?? "",
    stream: match?.[2] === "streamGenerateContent",
    messages_count: list(body.contents).length,
    tools_count: list(body.tools).reduce<number>((sum, tool) => sum + Math.max(1, functions(tool).length), 0),
  }),
  fold(value, answer) {
    if (value.error !== undefined) answer.stopReason = name(object(value.error).status) ?? "error";
    const blocked = name(object(value.promptFeedback).blockReason);
    if (blocked !== undefined) answer.stopReason = blocked;
    for (const each of list(value.candidates)) candidate(object(each), answer);
    usage(object(value.usageMetadata), answer);
  },
};

function functions(tool: unknown): unknown[] {
  const { functionDeclarations, function_declarations } = object(tool);
  return list(functionDeclarations ?? function_declarations);
}

function candidate(value: Json, answer: Answer): void {
  answer.stopReason = name(value.finishReason) ?? answer.stopReason;
  for (const part of list(object(value.content).parts)) {
    const { functionCall } = object(part);
    // A call comes whole, in whichever part of a stream.
    if (functionCall !== undefined) {
      const { name: called, args } = object(functionCall);
      answer.tool(`${answer.toolCount}`, name(called), args);
    }
  }
}

/** Each part of a stream has the counts so far. Thinking is output; what tools put in is input. */
function usage(given: Json, answer: Answer): void {
  const prompt = count(given.promptTokenCount);
  if (prompt !== undefined) {
    answer.usage.cacheRead = Math.min(count(given.cachedContentTokenCount) ?? 0, prompt);
    answer.usage.input = prompt - answer.usage.cacheRead + (count(given.toolUsePromptTokenCount) ?? 0);
  }
  const candidates = count(given.candidatesTokenCount);
  const thoughts = count(given.thoughtsTokenCount);
  if (candidates !== undefined || thoughts !== undefined) {
    answer.usage.output = (candidates ?? 0) + (thoughts ?? 0);
  }
}
