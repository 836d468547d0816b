import { count } from "../../../lib/base/text/mod.ts";
import type { BudgetUse } from "../../../lib/policy/budget/schema.ts";

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
