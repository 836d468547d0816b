import dbus from "dbus-native";
import { join } from "node:path";

/** Longest wait for an answer of the bus or of a program on it, in `ms`. */
const CALL_TIMEOUT_MS = 5_000;

/** Address of the session bus; systemd's place where no variable names it. */
export async function busAddress(
  env: { get(name: string): string | undefined } = Deno.env,
): Promise<string | undefined> {
  const named = env.get("DBUS_SESSION_BUS_ADDRESS");
  if (named) return named;
  const folder = env.get("XDG_RUNTIME_DIR");
  const path = folder && join(folder, "bus");
  return path && await Deno.stat(path).then(({ isSocket }) => isSocket, () => false)
    ? `unix:path=${path}`
    : undefined;
}

/** Connects to a bus. Throws where it does not answer. */
export async function connectBus(address: string): Promise<dbus.MessageBus> {
  const bus = dbus.createClient({ busAddress: address, timeout: CALL_TIMEOUT_MS });
  const failed = new Promise<never>((_, reject) => bus.connection.on("error", reject));
  failed.catch(() => {});
  await Promise.race([bus.listNames(), failed]);
  return bus;
}
