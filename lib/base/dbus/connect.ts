import dbus from "dbus-native";
import { join } from "node:path";
import { ignore } from "../error/mod.ts";
import { log } from "../log/mod.ts";
import { plain } from "../print/mod.ts";
import { timeLimit } from "../time/mod.ts";

/** Longest wait for an answer of the bus or of a program on it, in `ms`. */
const CALL_TIMEOUT_MS = timeLimit(5_000);
/** Longest wait for a bus to close its end of a connection, in `ms`. */
const CLOSE_MS = timeLimit(1_000);

/** Address of the session bus; systemd's path if no variable names it. */
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

/** Connects to a bus. Throws if it does not answer, and leaves no connection then. */
export async function connectBus(address: string): Promise<dbus.MessageBus> {
  const bus = dbus.createClient({
    busAddress: address,
    timeout: CALL_TIMEOUT_MS,
    // If a bus stays silent, the library's own greeting throws from a timer, where it cannot be caught.
    direct: true,
    // Session buses know their user by the socket; reading a refusal of cookies, the library throws likewise.
    authMethods: ["EXTERNAL"],
  });
  const failed = new Promise<never>((_, reject) => bus.connection.on("error", reject));
  failed.catch(ignore("raced below, where it counts"));
  bus.connection.on("handlerError", ({ message }) => log.warn(`D-Bus message: ${plain(message)}`));
  try {
    await Promise.race([greet(bus), failed]);
    return bus;
  } catch (error) {
    bus.connection.stream.destroy();
    throw error;
  }
}

/** Closes a connection, even to a bus that does not close its own end. */
export async function closeBus(bus: dbus.MessageBus): Promise<void> {
  let timer: ReturnType<typeof setTimeout>;
  const waited = new Promise<void>((resolve) => timer = setTimeout(resolve, CLOSE_MS));
  await Promise.race([bus.close(), waited]);
  clearTimeout(timer!);
  bus.connection.stream.destroy();
}

/** Asks for the name of this connection. The name is set before the next message is read. */
function greet(bus: dbus.MessageBus): Promise<void> {
  return new Promise((resolve, reject) => {
    bus.invokeDbus({ member: "Hello" }, (error: unknown, name: unknown) => {
      if (error) return reject(error);
      if (typeof name !== "string") return reject(new Error("the bus gave no name"));
      bus.name = name;
      resolve();
    });
  });
}
