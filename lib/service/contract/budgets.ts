import type { BudgetUse } from "../../policy/budget/schema.ts";
import type { Registry } from "../vm/registry.ts";

/** Limits of a VM that runs, with what is used of each; none for another, or one that does not reply. */
export async function budgetsOf(registry: Registry, idOrName: string): Promise<BudgetUse[]> {
  const vm = registry.alive().find(({ record: { id, name } }) => idOrName === id || idOrName === name);
  if (!vm) return [];
  return await vm.process.call({ t: "Budgets" }).then(({ budgets }) => budgets, () => []);
}
