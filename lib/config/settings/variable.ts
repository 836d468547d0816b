import { isForbiddenVariable } from "../../machine/guest/wire/mod.ts";

/** True for variables that settings may set in a guest (docs/design/contracts/07-guest-wire.md §7). */
export function isGuestVariable(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !isForbiddenVariable(name);
}
