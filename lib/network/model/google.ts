import type { Api, ModelRequest, ResponseFacts } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf } from "./json.ts";

/** Google's generateContent, in the Gemini API and Vertex AI. */
export const google: Api = {
  family: "google.generate_content",
  operation: "generateContent",
  path: /\/(?:models|tunedModels|endpoints)\/([^/:]+):(generateContent|streamGenerateContent)$/,
  modelInBody: false,
  needs: ["contents"],
  looksLike: (body) => listOf(body.contents).some((content) => Array.isArray(objectOf(content).parts)),
  readRequest: (body, match) => ({
    model: match?.[1] ?? nameOf(body.model) ?? "",
    stream: match?.[2] === "streamGenerateContent",
    messages_count: listOf(body.contents).length,
    tools_count: listOf(body.tools).reduce<number>(
      (sum, tool) => sum + Math.max(1, functionsOf(tool).length),
      0,
    ),
  }),
  readResponse(value, facts) {
    if (value.error !== undefined) facts.stopReason = nameOf(objectOf(value.error).status) ?? "error";
    const blocked = nameOf(objectOf(value.promptFeedback).blockReason);
    if (blocked !== undefined) facts.stopReason = blocked;
    for (const candidate of listOf(value.candidates)) readCandidate(objectOf(candidate), facts);
    readUsage(objectOf(value.usageMetadata), facts);
  },
};

/** The same in Gemini Code Assist, for logins of subscriptions: in an envelope that names the model. */
export const googleCodeAssist: Api = {
  family: "google.code_assist",
  operation: "generateContent",
  path: /^\/v1internal:(?:generateContent|streamGenerateContent)$/,
  modelInBody: true,
  needs: ["request"],
  looksLike: ({ request, model }) => nameOf(model) !== undefined && google.looksLike(objectOf(request)),
  readRequest: ({ request, model }, match) => ({
    ...google.readRequest(objectOf(request), null),
    model: nameOf(model) ?? "",
    stream: match?.[0].includes("stream") ?? false,
  }),
  readResponse(value, facts) {
    if (value.error !== undefined) google.readResponse({ error: value.error }, facts);
    google.readResponse(objectOf(value.response), facts);
  },
};

/** True for a request that has Google answer with chosen fields alone: its counts may not be among them. */
export function asksForPart({ query, headers }: Pick<ModelRequest, "query" | "headers">): boolean {
  return [...new URLSearchParams(query).keys()].some((name) => /^\$?fields$/i.test(name)) ||
    headers.some(([name]) => /^x-goog-field-?mask$/i.test(name));
}

function functionsOf(tool: unknown): unknown[] {
  const { functionDeclarations, function_declarations } = objectOf(tool);
  return listOf(functionDeclarations ?? function_declarations);
}

function readCandidate(value: Json, facts: ResponseFacts): void {
  facts.stopReason = nameOf(value.finishReason) ?? facts.stopReason;
  for (const part of listOf(objectOf(value.content).parts)) {
    const { functionCall } = objectOf(part);
    // A call is never split over parts of a stream.
    if (functionCall !== undefined) {
      const { name, args } = objectOf(functionCall);
      facts.addTool(`${facts.toolCount}`, nameOf(name), args);
    }
  }
}

/** Reads token counts, cumulative in a stream. Thinking counts as output, tool results as input. */
function readUsage(usage: Json, facts: ResponseFacts): void {
  const prompt = countOf(usage.promptTokenCount);
  if (prompt !== undefined) {
    facts.usage.cacheRead = Math.min(countOf(usage.cachedContentTokenCount) ?? 0, prompt);
    facts.usage.input = prompt - facts.usage.cacheRead + (countOf(usage.toolUsePromptTokenCount) ?? 0);
  }
  const candidates = countOf(usage.candidatesTokenCount);
  const thoughts = countOf(usage.thoughtsTokenCount);
  if (candidates !== undefined || thoughts !== undefined) {
    facts.usage.output = (candidates ?? 0) + (thoughts ?? 0);
  }
}
