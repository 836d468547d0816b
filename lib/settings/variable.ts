/** Variables that change what the guest's programs load or run before they look at anything (contracts.md §7). */
const FORBIDDEN = /^(LD_.*|IFS|BASH_ENV|ENV|PROMPT_COMMAND|BASH_FUNC_.*)$/;

/** Whether settings may set this variable in a guest (contracts.md §7, "Never set"). */
export function isGuestVariable(name: string): boolean {
  return /^[A-Za-z_][A-Za-z0-9_]{0,127}$/.test(name) && !FORBIDDEN.test(name);
}
