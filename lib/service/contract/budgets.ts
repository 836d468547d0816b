import type { BudgetUse } from "../../policy/budget/schema.ts";
import type { Registry } from "../vm/registry.ts";

/** Limits of a running VM, with the use of each; empty for a VM that is not running or does not reply. */
export async function budgetsOf(registry: Registry, idOrName: string): Promise<BudgetUse[]> {
  const vm = registry.alive().find(({ record: { id, name } }) => idOrName === id || idOrName === name);
  if (!vm) return [];
  return await vm.process.call({ t: "Budgets" }).then(({ budgets }) => budgets, () => []);
}
