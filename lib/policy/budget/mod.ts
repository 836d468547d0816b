/**
 * Budgets of sessions (docs/design/contracts/04-profiles.md §4, "Budgets"). Does not load zod: import
 * `schema.ts` to read one.
 */
export {
  type Bill,
  type BillPart,
  type CallUse,
  type Cost,
  DNS_BYTES,
  type LaterUse,
  OUTPUT_MAX,
} from "./amount.ts";
export {
  Budget,
  type BudgetLayer,
  type BudgetOptions,
  isBudget,
  type LayeredTerms,
  type Limit,
  type Reservation,
  type Spending,
  type Spent,
} from "./budget.ts";
export { narrowBudget } from "./narrow.ts";
export type { BudgetUse, VmBudget } from "./schema.ts";
export { DaySpending } from "./day.ts";
