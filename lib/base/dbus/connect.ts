/** The D-Bus of a desktop session: its connection, and notifications. */
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
      if (typeof name !== "string") return reject(new Error("the bus assigned no name"));
      bus.name = name;
      resolve();
    });
  });
}

// Notifications of a desktop: `org.freedesktop.Notifications`.

const NAME = "org.freedesktop.Notifications", PATH = "/org/freedesktop/Notifications";
/** Urgency of notifications that stay until a person has seen them. */
const CRITICAL = 2;

/** A notification; desktops read its body as markup. */
interface Notification {
  title: string;
  body: string;
  /** texts of its buttons by their keys */
  actions: Record<string, string>;
}

/**
 * Notifications of this session's desktop; connects when there is something to
 * show, and again after a failure.
 */
export class DbusBoard {
  readonly #address: () => Promise<string | undefined>;
  #bus?: Promise<dbus.MessageBus>;
  /** name on the bus of the program that shows them */
  #owner?: string;
  readonly #onAction = new Map<number, (key: string) => void>();

  constructor(address: () => Promise<string | undefined> = busAddress) {
    this.#address = address;
  }

  /**
   * Shows a notification.
   *
   * @param onAction a button was pressed
   * @returns a function that removes it; undefined without a desktop
   */
  async show(
    { title, body, actions }: Notification,
    onAction: (key: string) => void,
  ): Promise<(() => Promise<void>) | undefined> {
    const address = await this.#address();
    if (address === undefined) return undefined;
    const bus = await (this.#bus ??= this.#connect(address));
    const hints = { urgency: new dbus.Variant("y", CRITICAL) };
    const buttons = Object.entries(actions).flat();
    const id = await call<number>(bus, "Notify", "susssasa{sv}i", [
      "sbx",
      0,
      "",
      title,
      body,
      buttons,
      hints,
      -1,
    ]);
    this.#owner = await bus.invoke<string>({
      destination: "org.freedesktop.DBus",
      path: "/org/freedesktop/DBus",
      interface: "org.freedesktop.DBus",
      member: "GetNameOwner",
      signature: "s",
      body: [NAME],
    });
    this.#onAction.set(id, onAction);
    return async () => {
      if (this.#onAction.delete(id)) await call(bus, "CloseNotification", "u", [id]);
    };
  }

  async #connect(address: string): Promise<dbus.MessageBus> {
    let bus: dbus.MessageBus | undefined;
    try {
      bus = await connectBus(address);
      const forget = () => {
        this.#bus = undefined;
        this.#onAction.clear();
      };
      bus.connection.on("end", forget);
      bus.connection.on("error", forget);
      await bus.addMatch(`type='signal',sender='${NAME}',interface='${NAME}'`);
      bus.connection.on("message", ({ type, interface: face, member, body, sender }: dbus.Message) => {
        // Any program can send any signal over the bus: only the name's owner knows the pressed action.
        if (type !== dbus.messageType.signal || face !== NAME || sender !== this.#owner) return;
        const [id, key] = (body ?? []) as [number, string];
        const onAction = this.#onAction.get(id);
        if (member === "NotificationClosed" || member === "ActionInvoked") this.#onAction.delete(id);
        if (member === "ActionInvoked") onAction?.(key);
      });
      return bus;
    } catch (error) {
      this.#bus = undefined;
      if (bus) await closeBus(bus);
      throw error;
    }
  }
}

async function call<T>(bus: dbus.MessageBus, member: string, signature: string, body: unknown[]): Promise<T> {
  return await bus.invoke<T>({ destination: NAME, path: PATH, interface: NAME, member, signature, body });
}
