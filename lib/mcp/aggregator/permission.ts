/** What sbx-mcp-aggregator may still do once it serves: nothing but its pipes and the connection to its parent. */

import { openNothingMore } from "../../../ffi/libc/confine.ts";

/**
 * Permissions given up before the first byte of input is read. It needs no network: its HTTP goes over the connection
 * that it has. Deno has no way back without asking at a terminal. From source the module loader looks at `read`; that of a
 * compiled program does not, which is one reason for {@linkcode confine}.
 */
export const GIVEN_UP = ["net", "read", "write", "run", "env", "sys", "ffi", "import"] as const;

/** What is left, by permission name, for `sbx status`. */
export const AGGREGATOR_PERMISSIONS: Record<string, string> = {
  ...Object.fromEntries(GIVEN_UP.map((name) => [name, "none"])),
  net: "by way of sbx-process, to enabled MCP servers",
};

/**
 * Gives up all, and lets the kernel keep watch too: no file and no socket can be opened any more, by whatever code.
 *
 * @returns false where only Deno keeps watch
 */
export async function confine(): Promise<boolean> {
  const isFiltered = openNothingMore();
  await dropPermissions();
  return isFiltered;
}

/** Gives up {@linkcode GIVEN_UP} for good. */
export async function dropPermissions(names: readonly (typeof GIVEN_UP[number])[] = GIVEN_UP): Promise<void> {
  for (const name of names) await Deno.permissions.revoke({ name });
}
