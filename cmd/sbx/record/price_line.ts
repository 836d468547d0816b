import { count } from "../../../lib/base/text/mod.ts";

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
