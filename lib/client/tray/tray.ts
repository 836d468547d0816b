/**
 * The tray on the session bus: its registration with the desktop's tray host, and the actions of its menu.
 */
import type dbus from "dbus-native";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { closeBus, connectBus } from "../../base/dbus/mod.ts";
import { READ_MS } from "../../policy/ask/mod.ts";
import { DbusItem, ITEM_PATH } from "./dbus_item.ts";
import { DbusMenu, MENU_PATH } from "./dbus_menu.ts";
import { menuOf, OFFLINE, pausable, paused, type TrayAction, type TrayState } from "./menu.ts";

export interface TrayOptions {
  /** address of the session bus */
  address: string | undefined;
  /** opens the desktop, which starts sbx */
  open(): Promise<void>;
  /** starts sbx */
  start(): Promise<void>;
  /** sends a request to the gateway */
  send(method: string, path: string, body?: unknown): Promise<unknown>;
  /** reports a failed action */
  report(message: string): void;
}

/** One icon in the tray of this session. */
export class Tray {
  /** settles when a person quits, or the session's bus ends */
  readonly ended: Promise<void>;
  readonly #options: TrayOptions;
  readonly #bus: dbus.MessageBus;
  readonly #menu: DbusMenu;
  readonly #item: DbusItem;
  readonly #end: () => void;
  #state: TrayState = OFFLINE;
  /** `ms` at which an entry of an ask last came or moved */
  #movedAt = 0;

  private constructor(options: TrayOptions, bus: dbus.MessageBus) {
    this.#options = options;
    this.#bus = bus;
    this.#menu = new DbusMenu((action) => void this.#run(action));
    this.#item = new DbusItem(OFFLINE, () => void this.#run({ do: "open" }));
    this.#menu.set(menuOf(OFFLINE));
    const { promise, resolve } = Promise.withResolvers<void>();
    this.ended = promise;
    this.#end = resolve;
    bus.connection.on("end", resolve);
    bus.connection.on("error", () => resolve());
  }

  /**
   * Puts the icon into the tray.
   *
   * @throws {SbxError} `tray.no_bus`, `tray.no_host`
   */
  static async open(options: TrayOptions): Promise<Tray> {
    const bus = await openBus(options.address);
    const tray = new Tray(options, bus);
    try {
      await bus.export(ITEM_PATH, tray.#item.definition);
      await bus.export(MENU_PATH, tray.#menu.definition);
      tray.#item.markExported();
      tray.#menu.markExported();
      await register(bus);
      return tray;
    } catch (error) {
      await tray.close();
      throw error;
    }
  }

  /** Shows a state. */
  set(state: TrayState): void {
    if (idsOf(state) !== idsOf(this.#state)) this.#movedAt = performance.now();
    this.#state = state;
    this.#item.set(state);
    this.#menu.set(menuOf(state));
  }

  async close(): Promise<void> {
    await closeBus(this.#bus);
  }

  async #run(action: TrayAction): Promise<void> {
    try {
      if (action.do === "quit") this.#end();
      else if (action.do === "open") await this.#options.open();
      else if (action.do === "start") await this.#options.start();
      else if (action.do === "answer") await this.#answer(action);
      else await this.#toAll(action.do);
    } catch (error) {
      this.#options.report(asSbxError(error, "the tray").message);
    }
  }

  /** Sends an answer, unless the menu has just changed: the click was meant for the entry before. */
  async #answer({ ask, digest, decision }: TrayAction & { do: "answer" }): Promise<void> {
    if (performance.now() - this.#movedAt < READ_MS) {
      return this.#options.report(`${ask} is not answered: the menu had just changed`);
    }
    const path = `/asks/${encodeURIComponent(ask)}/resolve`;
    await this.#options.send("POST", path, { decision, scope: "once", digest });
  }

  /** Sends an action to every VM that takes it; a failure is reported, and the other VMs still get it. */
  async #toAll(action: "pause" | "resume"): Promise<void> {
    const vms = action === "pause" ? pausable(this.#state) : paused(this.#state);
    const results = await Promise.allSettled(
      vms.map(({ id }) => this.#options.send("POST", `/vms/${id}/${action}`)),
    );
    results.forEach((result, at) => {
      if (result.status === "fulfilled") return;
      this.#options.report(`${vms[at].name}: ${asSbxError(result.reason, action).message}`);
    });
  }
}

function idsOf({ asks }: TrayState): string {
  return asks.map(({ ask_id }) => ask_id).join();
}

const WATCHER = "org.kde.StatusNotifierWatcher", WATCHER_PATH = "/StatusNotifierWatcher";
/** Name of this process's one icon on the bus, of the form that the specification gives. */
const ITEM_NAME = `org.kde.StatusNotifierItem-${Deno.pid}-1`;
const HINT = "start it in a desktop session, where DBUS_SESSION_BUS_ADDRESS is set";

/**
 * Connects to the session bus.
 *
 * @throws {SbxError} `tray.no_bus`
 */
async function openBus(address: string | undefined): Promise<dbus.MessageBus> {
  if (address === undefined) {
    throw new SbxError("tray.no_bus", "there is no D-Bus session bus, so there is no tray for the icon", {
      hint: HINT,
    });
  }
  try {
    return await connectBus(address);
  } catch (cause) {
    throw silentBus(cause);
  }
}

function silentBus(cause: unknown): SbxError {
  return new SbxError(
    "tray.no_bus",
    "the D-Bus session bus does not answer, so there is no tray for the icon",
    { cause, hint: HINT },
  );
}

/**
 * Puts the icon into the tray, and again whenever another tray takes over, as after a restart of the panel.
 *
 * @throws {SbxError} `tray.no_bus`, `tray.no_host`
 */
async function register(bus: dbus.MessageBus): Promise<void> {
  try {
    await bus.requestName(ITEM_NAME, 0);
    await bus.addMatch(
      `type='signal',sender='org.freedesktop.DBus',member='NameOwnerChanged',arg0='${WATCHER}'`,
    );
  } catch (cause) {
    throw silentBus(cause);
  }
  bus.connection.on("message", ({ member, body }: dbus.Message) => {
    if (member === "NameOwnerChanged" && body?.[0] === WATCHER && body[2] !== "") {
      Promise.resolve(registerOnce(bus)).catch(ignore("the new tray may be gone again"));
    }
  });
  try {
    const hasHost = await bus.invoke<boolean>({
      destination: WATCHER,
      path: WATCHER_PATH,
      interface: "org.freedesktop.DBus.Properties",
      member: "Get",
      signature: "ss",
      body: [WATCHER, "IsStatusNotifierHostRegistered"],
    });
    if (!hasHost) throw new Error("no host is registered");
    await registerOnce(bus);
  } catch (cause) {
    throw new SbxError("tray.no_host", "this desktop shows no tray for icons", {
      cause,
      hint: "on GNOME, install the extension AppIndicator (Debian: gnome-shell-extension-appindicator)",
    });
  }
}

async function registerOnce(bus: dbus.MessageBus): Promise<void> {
  await bus.invoke({
    destination: WATCHER,
    path: WATCHER_PATH,
    interface: WATCHER,
    member: "RegisterStatusNotifierItem",
    signature: "s",
    body: [ITEM_NAME],
  });
}
