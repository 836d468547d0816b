/** Budgets of sessions (docs/contracts.md §4, "Budgets"). Does not load zod: import `schema.ts` to read one. */
export type { Cost } from "./amount.ts";
export {
  Budget,
  type BudgetLayer,
  type BudgetOptions,
  type LayeredTerms,
  type Limit,
  type Reservation,
} from "./budget.ts";
export type { BudgetUse } from "./schema.ts";
export { DaySpending } from "./day.ts";
