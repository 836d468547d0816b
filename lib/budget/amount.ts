/** What budgets count. */
import type { Event } from "../event/mod.ts";

export const KINDS = ["usd", "tokens", "requests", "bytes_out", "minutes"] as const;
export type Kind = typeof KINDS[number];
export type Amounts = Record<Kind, number>;

export const noAmounts = (): Amounts => ({ usd: 0, tokens: 0, requests: 0, bytes_out: 0, minutes: 0 });

/** Kinds that an event of a type may use up; of other types, none. */
export const KINDS_OF: Partial<Record<Event["common"]["event_type"], readonly Kind[]>> = {
  "http.request": ["requests", "bytes_out", "minutes"],
  "model.call": ["usd", "tokens", "minutes"],
  "mcp.tool_call": ["minutes"],
};

/** Tokens of a call by price category; as far as it is known. */
export interface CallUsage {
  input?: number;
  output?: number;
}

/** Cost of a call in millionths of a US dollar; `undefined` for a model without a known price. */
export type Cost = (provider: string, model: string, usage: CallUsage) => number | undefined;

/** Most tokens of an answer whose request names no limit of its own. */
const OUTPUT_MAX = 128_000;
/** Tokens that an answer counts which was broken off before its provider counted it. */
const OUTPUT_UNREPORTED = 4096;
/** Bytes of a token, where nobody counts them; English text has four, and fewer are counted more. */
const TOKEN_BYTES = 3;

/** Operations that providers do not bill: they count tokens, or keep files. */
const UNBILLED = new Set(["messages.count_tokens", "responses.input_tokens", "countTokens", "files"]);

const LIMIT_KEYS = ["max_tokens", "max_completion_tokens", "max_output_tokens"];

/** The most that a call can use, before it is sent. A model without a known price costs nothing here. */
export function mostOf(event: Event, cost: Cost): Pick<Amounts, "usd" | "tokens"> {
  const { provider, model, body } = event.model!.request;
  if (!isBilled(event)) return { tokens: 0, usd: 0 };
  const usage = { input: body.size ?? 0, output: outputLimitOf(body.truncated ? undefined : body.text) };
  return { tokens: usage.input + usage.output, usd: (cost(provider, model, usage) ?? 0) / 1e6 };
}

/** What a call has used, by its recorded response. */
export function usedBy(event: Event, response: unknown, cost: Cost): Pick<Amounts, "usd" | "tokens"> {
  const { provider, model, body } = event.model!.request;
  const { status, input_tokens, output_tokens, estimated_cost_micros } = (response ?? {}) as Partial<
    NonNullable<NonNullable<Event["model"]>["response"]>
  >;
  const isAnswered = status !== undefined && status >= 200 && status < 300;
  if (!isAnswered || !isBilled(event)) return { tokens: 0, usd: 0 };
  const isCounted = output_tokens !== undefined;
  const usage = {
    input: input_tokens ?? Math.ceil((body.size ?? 0) / TOKEN_BYTES),
    output: output_tokens ?? OUTPUT_UNREPORTED,
  };
  const micros = isCounted ? estimated_cost_micros : undefined;
  return { tokens: usage.input + usage.output, usd: (micros ?? cost(provider, model, usage) ?? 0) / 1e6 };
}

/** False for calls that cost nothing, whatever their model. */
export function isBilled({ model }: Event): boolean {
  return model !== undefined && !UNBILLED.has(model.request.operation);
}

/** Limit of the answer that a request names, for all answers that it asks for. */
function outputLimitOf(text: string | undefined): number {
  try {
    const body = JSON.parse(text ?? "");
    const named = LIMIT_KEYS.map((key) => body[key]).concat(body.generationConfig?.maxOutputTokens)
      .filter((value) => typeof value === "number" && value > 0);
    const answers = Math.max(1, Number(body.n) || 1, Number(body.generationConfig?.candidateCount) || 1);
    return (named.length > 0 ? Math.max(...named) : OUTPUT_MAX) * answers;
  } catch {
    return OUTPUT_MAX;
  }
}
