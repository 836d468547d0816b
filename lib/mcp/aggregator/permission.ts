/** Permissions of sbx-mcp-aggregator while it serves: its pipes and the connection to its parent, nothing else. */
import { confineProcess } from "../../../ffi/host/confine.ts";

/**
 * Permissions revoked before the first byte of input is read. HTTP goes over the connection to the parent, so it needs
 * no network. Deno restores a permission only by a prompt at a terminal. From source the module loader checks `read`;
 * in a compiled program it does not, one reason for {@linkcode confine}.
 */
export const REVOKED = ["net", "read", "write", "run", "env", "sys", "ffi", "import"] as const;

/**
 * Revokes all permissions and installs a kernel filter: no code in this process can open a file or a socket any more.
 *
 * @returns false where the kernel has no such filter and only Deno's permissions apply
 */
export async function confine(): Promise<boolean> {
  const isFiltered = confineProcess();
  await dropPermissions();
  return isFiltered;
}

/** Revokes permissions for the rest of the process, {@linkcode REVOKED} by default. */
export async function dropPermissions(names: readonly (typeof REVOKED[number])[] = REVOKED): Promise<void> {
  for (const name of names) await Deno.permissions.revoke({ name });
}
