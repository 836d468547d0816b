/** Notifications of a desktop: `org.freedesktop.Notifications`. */
import dbus from "dbus-native";
import { busAddress, closeBus, connectBus } from "./connect.ts";

const NAME = "org.freedesktop.Notifications", PATH = "/org/freedesktop/Notifications";
/** Urgency of notifications that stay until a person has seen them. */
const CRITICAL = 2;

/** A notification; desktops read its body as markup. */
export interface Notification {
  title: string;
  body: string;
  /** texts of its buttons by their keys */
  actions: Record<string, string>;
}

/** Notifications of this session's desktop; connects when there is something to show, and again after a failure. */
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
