/** Amazon Bedrock's runtime: Converse, and InvokeModel with the bodies of each model's maker. */
import { anthropic } from "./anthropic.ts";
import type { Api, Header, ResponseFacts } from "./api.ts";
import { countOf, type Json, listOf, nameOf, objectOf, textOf } from "./json.ts";

const INVOKE = "(invoke|invoke-with-response-stream)$";

/** Claude on Bedrock, in Anthropic's form; its model is in the path. */
export const bedrockAnthropic: Api = {
  ...anthropic,
  operation: "invoke",
  path: new RegExp(`^/model/((?:[^/]+/)*(?:[a-z-]+\\.)?anthropic\\.[^/]+)/${INVOKE}`, "i"),
  modelInBody: false,
  looksLike: () => false,
  readRequest: (body, match) => ({ ...anthropic.readRequest(body, null), ...pathFactsOf(match) }),
  readHead,
  readResponse(value, facts) {
    if (!readException(value, facts)) anthropic.readResponse(value, facts);
  },
};

/** Other models, whose limits are named differently by each maker. */
export const bedrockInvoke: Api = {
  family: "bedrock.invoke",
  operation: "invoke",
  path: new RegExp(`^/model/(.+)/${INVOKE}`, "i"),
  modelInBody: false,
  needs: ["messages", "prompt", "inputText"],
  looksLike: () => false,
  readRequest: (body, match) => ({ ...countsOf(body), ...pathFactsOf(match) }),
  readHead,
  readResponse,
};

export const bedrockConverse: Api = {
  family: "bedrock.converse",
  operation: "converse",
  path: /^\/model\/(.+)\/(converse|converse-stream)$/i,
  modelInBody: false,
  needs: ["messages"],
  looksLike: () => false,
  readRequest: (body, match) => ({ ...countsOf(body), ...pathFactsOf(match) }),
  readHead,
  readResponse,
};

function pathFactsOf(match: RegExpExecArray | null): { model: string; stream: boolean } {
  return { model: match?.[1] ?? "", stream: /stream$/i.test(match?.[2] ?? "") };
}

function countsOf(body: Json): { messages_count: number; tools_count: number } {
  const tools = listOf(objectOf(body.toolConfig).tools);
  return { messages_count: listOf(body.messages).length, tools_count: tools.length };
}

/** Counts of an answer that is not streamed, whatever its body, and the name of an error. */
function readHead(headers: readonly Header[], facts: ResponseFacts): void {
  const valueOf = (name: string) => headers.find(([key]) => key === name)?.[1];
  const countIn = (name: string) => {
    const text = valueOf(name);
    return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
  };
  const input = countIn("x-amzn-bedrock-input-token-count");
  const output = countIn("x-amzn-bedrock-output-token-count");
  if (input !== undefined) facts.usage.input = input;
  if (output !== undefined) facts.usage.output = output;
  facts.stopReason = nameOf(valueOf("x-amzn-errortype")?.split(":")[0]);
}

function readException(value: Json, facts: ResponseFacts): boolean {
  const exception = nameOf(value.exception);
  if (exception !== undefined) facts.stopReason = exception;
  return exception !== undefined;
}

function readResponse(value: Json, facts: ResponseFacts): void {
  if (readException(value, facts)) return;
  if (value.messageStart !== undefined) facts.isOpen = true;
  const { contentBlockStart, contentBlockDelta, messageStop, metadata } = value;
  readTool(objectOf(contentBlockStart), objectOf(contentBlockStart).start, facts);
  const { contentBlockIndex, delta } = objectOf(contentBlockDelta);
  facts.appendArguments(`${contentBlockIndex}`, textOf(objectOf(objectOf(delta).toolUse).input));
  for (const part of [value, objectOf(messageStop)]) {
    facts.stopReason = nameOf(part.stopReason) ?? nameOf(part.stop_reason) ?? facts.stopReason;
  }
  for (const [at, block] of listOf(objectOf(objectOf(value.output).message).content).entries()) {
    readTool({ contentBlockIndex: at }, block, facts);
  }
  for (const part of [value, objectOf(metadata)]) {
    readUsage(objectOf(part.usage), facts);
    facts.tier = nameOf(objectOf(part.serviceTier).type) ?? facts.tier;
    if (objectOf(part.performanceConfig).latency === "optimized") facts.tier = "optimized";
  }
  const metrics = objectOf(value["amazon-bedrock-invocationMetrics"]);
  // Counts end a stream: one without them was cut.
  if (metadata !== undefined || countOf(metrics.outputTokenCount) !== undefined) facts.isOpen = false;
  facts.usage.input ??= countOf(metrics.inputTokenCount);
  facts.usage.output ??= countOf(metrics.outputTokenCount);
}

function readTool({ contentBlockIndex }: Json, block: unknown, facts: ResponseFacts): void {
  const { toolUse } = objectOf(block);
  if (toolUse === undefined) return;
  const { name, input } = objectOf(toolUse);
  facts.addTool(`${contentBlockIndex}`, nameOf(name), input);
}

/** Reads token counts; the input is without tokens read from a cache or written to one. */
function readUsage(usage: Json, facts: ResponseFacts): void {
  const counts = {
    input: countOf(usage.inputTokens),
    output: countOf(usage.outputTokens),
    cacheRead: countOf(usage.cacheReadInputTokens) ?? countOf(usage.cacheReadInputTokenCount),
    cacheWrite: countOf(usage.cacheWriteInputTokens) ?? countOf(usage.cacheWriteInputTokenCount),
  };
  for (const [key, tokens] of Object.entries(counts)) {
    if (tokens !== undefined) facts.usage[key as keyof typeof counts] = tokens;
  }
  const long = listOf(usage.cacheDetails).map(objectOf).filter(({ ttl }) => ttl === "1h")
    .reduce((sum, { inputTokens }) => sum + (countOf(inputTokens) ?? 0), 0);
  if (long > 0 && counts.cacheWrite !== undefined) {
    facts.usage.cacheWriteLong = long;
    facts.usage.cacheWrite = Math.max(0, counts.cacheWrite - long);
  }
}
