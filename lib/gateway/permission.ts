/** What sbx-gateway may still do once it serves (architecture.md, "Privilege"). */

/** Permissions that the gateway gives up before it reads its first untrusted byte. */
export const GIVEN_UP = ["run", "ffi", "sys", "env", "import"] as const;

/** What is left, by permission name, for `sbx status`. */
export const GATEWAY_PERMISSIONS: Record<string, string> = {
  net: "the loopback port, the service's socket",
  read: "the service's socket",
  write: "the service's socket, the gateway's own three files",
  ...Object.fromEntries(GIVEN_UP.map((name) => [name, "none"])),
};

/** Gives up {@linkcode GIVEN_UP} for good: Deno has no way back without asking at a terminal. */
export async function dropPermissions(): Promise<void> {
  for (const name of GIVEN_UP) await Deno.permissions.revoke({ name } as Deno.PermissionDescriptor);
}
