import type { BudgetUse } from "../../../lib/policy/budget/schema.ts";

/** `budget of the profile: 3.2 of 5 usd used` */
export function budgetLine({ layer, limit, used, max }: BudgetUse): string {
  const owner = layer === "corp" ? "corp" : "the profile";
  const isDaily = limit.startsWith("per_day_");
  const unit = limit.replace("per_day_", "").replace("bytes_out", "bytes sent");
  return `budget of ${owner}: ${rounded(used)} of ${max} ${unit}${isDaily ? " today" : ""} used`;
}

/** Four decimal places, as in prices. */
const rounded = (amount: number) => String(Number(amount.toFixed(4)));
