import { isForbiddenVariable } from "../guest/limit.ts";

/** Whether settings may set this variable in a guest (contracts.md §7, "Never set"). */
export function isGuestVariable(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !isForbiddenVariable(name);
}
