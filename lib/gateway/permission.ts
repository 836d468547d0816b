/** What sbx-gateway may still do once it serves (architecture.md, "Privilege"). */

/**
 * Permissions that the gateway gives up before it reads its first untrusted byte. `import` is not among them: Deno's
 * module loader does not look at what was revoked, so claiming it would be untrue; `--cached-only`, with which the
 * gateway is started, keeps the loader off the network.
 */
export const GIVEN_UP = ["run", "ffi", "sys", "env"] as const;

/** What is left, by permission name, for `sbx status`. */
export const GATEWAY_PERMISSIONS: Record<string, string> = {
  net: "granted",
  read: "granted",
  write: "granted",
  import: "cached modules",
  ...Object.fromEntries(GIVEN_UP.map((name) => [name, "none"])),
};

/** Gives up {@linkcode GIVEN_UP} for good: Deno has no way back without asking at a terminal. */
export async function dropPermissions(): Promise<void> {
  for (const name of GIVEN_UP) await Deno.permissions.revoke({ name });
}
