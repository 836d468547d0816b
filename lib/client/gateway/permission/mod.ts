/** Permissions of sbx-gateway while it serves. */

/**
 * Permissions revoked before the first untrusted byte is read. `import` is not among them: Deno's
 * module loader ignores that it was revoked. The gateway is started with `--cached-only`, which
 * keeps the loader off the network.
 */
export const REVOKED = ["run", "ffi", "sys", "env"] as const;

/** State of each permission after that, for `sbx status`. */
export const GATEWAY_PERMISSIONS: Record<string, string> = {
  net: "granted",
  read: "granted",
  write: "granted",
  import: "cached modules",
  ...Object.fromEntries(REVOKED.map((name) => [name, "none"])),
};

/**
 * Revokes {@linkcode REVOKED} for the rest of the process: Deno restores a permission
 * only by a prompt at a terminal.
 */
export async function dropPermissions(): Promise<void> {
  for (const name of REVOKED) await Deno.permissions.revoke({ name });
}
