/** Sums over listed events, on one line, and costs of model calls. */
import { objectOf } from "../../../lib/base/object/mod.ts";
import { formatBytes } from "../../../lib/base/progress/mod.ts";
import { count } from "../../../lib/base/text/mod.ts";
import type { ListedEvent } from "./event_query.ts";
import type { BudgetUse } from "../../../lib/policy/budget/schema.ts";

/** Tools named in the line; the others are counted. */
const TOOLS_MAX = 5;

/** Totals of a list of events; totals of models only if there are calls. */
export interface EventTotals {
  events: number;
  blocked: number;
  asked: number;
  http: { requests: number; response_bytes: number };
  models: {
    calls: number;
    input_tokens: number;
    output_tokens: number;
    cost_micros: number;
    unpriced_calls: number;
    /** at the price of another model */
    estimated_calls: number;
    /** calls requested by models, by the name of the tool */
    tool_calls: Record<string, number>;
  };
}

export function totalsOf(events: readonly ListedEvent[]): EventTotals {
  const tool_calls: Record<string, number> = Object.create(null);
  const models = {
    calls: 0,
    input_tokens: 0,
    output_tokens: 0,
    cost_micros: 0,
    unpriced_calls: 0,
    estimated_calls: 0,
  };
  const http = { requests: 0, response_bytes: 0 };
  for (const event of events) {
    if (event.http) {
      http.requests++;
      http.response_bytes += numberOf(objectOf(objectOf(event.http).response).bytes);
    }
    // A refused call has used nothing.
    if (!event.model || event.decision === "block") continue;
    const response = objectOf(objectOf(event.model).response);
    models.calls++;
    models.input_tokens += numberOf(response.input_tokens);
    models.output_tokens += numberOf(response.output_tokens);
    models.cost_micros += numberOf(response.estimated_cost_micros);
    if (response.estimated_cost_micros === undefined) models.unpriced_calls++;
    if (response.price_basis !== undefined) models.estimated_calls++;
    for (const call of Array.isArray(response.tool_calls) ? response.tool_calls : []) {
      const name = String(objectOf(call).name);
      tool_calls[name] = (tool_calls[name] ?? 0) + 1;
    }
  }
  const decided = (decision: string) => events.filter((event) => event.decision === decision).length;
  return {
    events: events.length,
    blocked: decided("block"),
    asked: decided("ask"),
    http,
    models: { ...models, tool_calls: { ...tool_calls } },
  };
}

/** The totals for a person. */
export function formatTotals({ events, blocked, asked, http, models }: EventTotals): string {
  return [
    [count(events, "event"), blocked && `${blocked} blocked`, asked && `${asked} waiting for an answer`],
    http.requests && [count(http.requests, "HTTP request"), `${formatBytes(http.response_bytes)} received`],
    models.calls && [
      count(models.calls, "model call"),
      `${models.input_tokens} tokens in and ${models.output_tokens} out`,
      `cost ${formatTotal({ ...models, usd: models.cost_micros / 1e6 })}`,
    ],
    toolLine(models.tool_calls),
  ].filter((part) => part && part.length > 0)
    .map((part) => (part as (string | number)[]).filter(Boolean).join(", "))
    .join("; ");
}

function toolLine(calls: Record<string, number>): string[] {
  const byCount = Object.entries(calls).sort(([, a], [, b]) => b - a);
  if (byCount.length === 0) return [];
  const named = byCount.slice(0, TOOLS_MAX).map(([name, times]) => `${name} ${times}`);
  const rest = byCount.slice(TOOLS_MAX).reduce((sum, [, times]) => sum + times, 0);
  return [`tool calls of models: ${named.join(", ")}`, ...rest ? [`${rest} of other tools`] : []];
}

function numberOf(value: unknown): number {
  return typeof value === "number" ? value : 0;
}

/** Remedy for calls without a price of their own. */
export const PRICE_HINT =
  'sbx settings set network.model_price_file FILE adds prices; docs/guides/policy.md, "Prices", has the format';

/** Sum of costs, never $0 for calls whose price is unknown. */
export function formatTotal(
  { usd, unpriced_calls, estimated_calls }: {
    usd: number;
    unpriced_calls: number;
    estimated_calls: number;
  },
): string {
  if (unpriced_calls > 0 && usd === 0) return "not known: no call has a known price";
  const parts = [
    estimated_calls > 0 && `${count(estimated_calls, "call")} at the price of another model`,
    unpriced_calls > 0 && `${count(unpriced_calls, "call")} whose price is not known`,
  ].filter((part) => part !== false);
  return `${estimated_calls > 0 ? "about " : ""}$${usd.toFixed(4)}${
    parts.map((part) => `, ${part}`).join("")
  }`;
}

/** `budget of the profile: 3.2 of 5 usd used` */
export function budgetLine({ layer, limit, used, max }: BudgetUse): string {
  const owner = layer === "corp" ? "corp" : "the profile";
  const isDaily = limit.startsWith("per_day_");
  const unit = limit.replace("per_day_", "").replace("bytes_out", "bytes sent");
  return `budget of ${owner}: ${rounded(used)} of ${max} ${unit}${isDaily ? " today" : ""} used`;
}

/** Four decimal places, as in prices. */
const rounded = (amount: number) => String(Number(amount.toFixed(4)));
