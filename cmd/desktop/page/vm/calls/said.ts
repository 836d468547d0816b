/**
 * The last words of a request to a model. Requests have the whole conversation so far: its end alone is new,
 * and the answer before it is the one of the call before.
 */

/** Text and results of tools since the last answer, and that answer. */
export interface Said {
  answer?: string;
  prompt?: string;
  /** results of tools */
  results: number;
}

type Json = Record<string, unknown>;

/** @param text the recorded body; undefined for one that is not whole, or of another shape */
export function saidIn(text: string | undefined): Said | undefined {
  const messages = messagesOf(text);
  if (messages === undefined) return undefined;
  const parts: string[] = [];
  let results = 0;
  let at = messages.length - 1;
  for (; at >= 0 && !isAnswer(messages[at]); at--) {
    const { texts, results: found } = partsOf(messages[at]);
    parts.unshift(...texts);
    results += found;
  }
  const answers: string[] = [];
  for (; at >= 0 && isAnswer(messages[at]); at--) answers.unshift(...partsOf(messages[at]).texts);
  return {
    ...answers.length > 0 && { answer: answers.join("\n\n") },
    ...parts.length > 0 && { prompt: parts.join("\n\n") },
    results,
  };
}

/** Messages of Anthropic and OpenAI, items of OpenAI's responses, contents of Google. */
function messagesOf(text: string | undefined): Json[] | undefined {
  let body: unknown;
  try {
    body = JSON.parse(text ?? "");
  } catch {
    // Cut in the record, or no JSON.
    return undefined;
  }
  if (!isJson(body)) return undefined;
  const { messages, input, contents, prompt } = body;
  const list = messages ?? input ?? contents ?? prompt;
  if (typeof list === "string") return [{ role: "user", content: list }];
  return Array.isArray(list) ? list.filter(isJson).filter(({ role }) => role !== "system") : undefined;
}

function isJson(value: unknown): value is Json {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

function isAnswer({ role, type }: Json): boolean {
  return role === "assistant" || role === "model" || type === "function_call" || type === "reasoning";
}

function partsOf(message: Json): { texts: string[]; results: number } {
  const { role, type, content, parts } = message;
  if (role === "tool" || type === "function_call_output") return { texts: [], results: 1 };
  const all = content ?? parts;
  if (typeof all === "string") return { texts: all === "" ? [] : [all], results: 0 };
  const list = Array.isArray(all) ? all.filter(isJson) : [];
  const texts = list.map((part) => part.text).filter((text): text is string => typeof text === "string");
  const isResult = (part: Json) => part.type === "tool_result" || part.functionResponse !== undefined;
  return { texts: texts.filter((text) => text !== ""), results: list.filter(isResult).length };
}
