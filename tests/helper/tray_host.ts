/** A tray of a test's own: the watcher that icons register at, and the host that reads and clicks them. */
import dbus from "dbus-native";
import type { PrivateBus } from "./private_bus.ts";

const WATCHER = "org.kde.StatusNotifierWatcher";

/** An entry of a menu as a host has it. */
export interface HostEntry {
  id: number;
  label?: string;
  isSeparator: boolean;
  isEnabled: boolean;
  children: HostEntry[];
}
type Layout = [id: number, properties: Record<string, unknown>, children: Layout[]];

/** The tray of a desktop. */
export class TrayHost implements AsyncDisposable {
  /** names of the icons that came, in their order */
  readonly items: string[] = [];
  /** members of the signals of all icons */
  readonly signals: string[] = [];
  readonly #bus: dbus.MessageBus;

  private constructor(bus: dbus.MessageBus) {
    this.#bus = bus;
  }

  static async open(session: PrivateBus, { hasHost = true } = {}): Promise<TrayHost> {
    const bus = session.client();
    const host = new TrayHost(bus);
    const watcher = dbus.defineInterface({
      name: WATCHER,
      methods: {
        RegisterStatusNotifierItem: {
          in: { service: "s" },
          handler: ({ service }: { service: string }) => void host.items.push(service),
        },
      },
      properties: { IsStatusNotifierHostRegistered: { type: "b", access: "read", value: hasHost } },
    });
    await bus.export("/StatusNotifierWatcher", watcher);
    for (const name of ["org.kde.StatusNotifierItem", "com.canonical.dbusmenu"]) {
      await bus.addMatch(`type='signal',interface='${name}'`);
    }
    bus.connection.on("message", (message: dbus.Message) => {
      if (message.type === dbus.messageType.signal) host.signals.push(message.member!);
    });
    await bus.requestName(WATCHER, 0);
    return host;
  }

  /** A property of the newest icon. */
  async property<T>(name: string): Promise<T> {
    const signature = "ss", body = ["org.kde.StatusNotifierItem", name];
    return await this.#call("/StatusNotifierItem", "org.freedesktop.DBus.Properties", "Get", signature, body);
  }

  /** The menu of the newest icon. */
  async menu(): Promise<HostEntry[]> {
    const [, layout] = await this.#call<[number, Layout]>(
      await this.property("Menu"),
      "com.canonical.dbusmenu",
      "GetLayout",
      "iias",
      [0, -1, []],
    );
    return entryOf(layout).children;
  }

  /** Labels of all entries, those of submenus after their own. */
  async labels(): Promise<string[]> {
    const flat = (entries: HostEntry[]): string[] =>
      entries.flatMap(({ label, children }) => [...label === undefined ? [] : [label], ...flat(children)]);
    return flat(await this.menu());
  }

  /** Chooses the entry of these labels, from the menu inwards. */
  async click(...labels: string[]): Promise<void> {
    let entries = await this.menu();
    let found: HostEntry | undefined;
    for (const label of labels) {
      found = entries.find((entry) => entry.label === label);
      if (found === undefined) throw new Error(`the menu has no ${label}: ${JSON.stringify(entries)}`);
      entries = found.children;
    }
    await this.clickId(found!.id);
  }

  async clickId(id: number): Promise<void> {
    const body = [id, "clicked", new dbus.Variant("i", 0), 0];
    await this.#call(await this.property("Menu"), "com.canonical.dbusmenu", "Event", "isvu", body);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#bus.close();
  }

  async #call<T>(path: string, face: string, member: string, signature: string, body: unknown[]): Promise<T> {
    const destination = this.items.at(-1)!;
    return await this.#bus.invoke<T>({ destination, path, interface: face, member, signature, body });
  }
}

function entryOf([id, properties, children]: Layout): HostEntry {
  return {
    id,
    label: properties.label as string | undefined,
    isSeparator: properties.type === "separator",
    isEnabled: properties.enabled !== false,
    children: children.map(entryOf),
  };
}
