import { setClock } from "../../../ffi/libc/clock.ts";
import { reseedKernel } from "../../../ffi/libc/identity.ts";
import { ifFound } from "../../../lib/base/error/mod.ts";
import type { HostMessage } from "../../../lib/machine/guest/wire/mod.ts";

type Identity = Extract<HostMessage, { t: "BootConfig" }>;

const USER_NAMESPACES = "/proc/sys/user/max_user_namespaces";
/** Most user namespaces of a user where a VM may have them. */
const USER_NAMESPACES_MAX = 4096;

/**
 * Gives this machine an identity different from others started from the same memory, before any program of a
 * user runs: random numbers, clock and name. The boot id needs nothing: the kernel draws it when it is first
 * read.
 *
 * @param isCopy the machine was started from memory: others know its kernel's secrets
 * @param arrived when the message came, by `performance.now()`: a booted machine's clock counts whole seconds
 *  from then on
 */
export function becomeOneself(
  { epoch_ms, seed, hostname, user_namespaces }: Identity,
  { isCopy, arrived }: { isCopy: boolean; arrived: number },
): void {
  if (isCopy) reseedKernel(Uint8Array.fromBase64(seed));
  setClock(epoch_ms + performance.now() - arrived);
  Deno.writeTextFileSync("/proc/sys/kernel/hostname", hostname);
  if (user_namespaces) Deno.writeTextFileSync(USER_NAMESPACES, String(USER_NAMESPACES_MAX));
}

/** Writes the machine's name and id where programs look for them; a VM that starts again has them already. */
export async function writeIdentity({ hostname, machine_id }: Identity): Promise<void> {
  const files = {
    "/etc/hostname": `${hostname}\n`,
    "/etc/machine-id": `${machine_id}\n`,
    "/etc/hosts": withName(await ifFound(Deno.readTextFile("/etc/hosts")) ?? "", hostname),
  };
  for (const [path, text] of Object.entries(files)) {
    if (await ifFound(Deno.readTextFile(path)) !== text) await Deno.writeTextFile(path, text);
  }
}

/** The first line is ours; everything below it is the user's. */
function withName(hosts: string, hostname: string): string {
  const [, ...rest] = hosts.split("\n");
  return [`127.0.0.1 localhost ${hostname}`, ...rest].join("\n");
}
