/** The session bus and its tray. */
import type dbus from "dbus-native";
import { SbxError } from "../../base/error/mod.ts";
import { connectBus } from "../../base/dbus/mod.ts";

const WATCHER = "org.kde.StatusNotifierWatcher", WATCHER_PATH = "/StatusNotifierWatcher";
/** Name of this process's one icon on the bus, of the form that the specification gives. */
const ITEM_NAME = `org.kde.StatusNotifierItem-${Deno.pid}-1`;
const HINT = "start it in a desktop session, where DBUS_SESSION_BUS_ADDRESS is set";

/**
 * Connects to the session bus.
 *
 * @throws {SbxError} `tray.no_bus`
 */
export async function openBus(address: string | undefined): Promise<dbus.MessageBus> {
  if (address === undefined) {
    throw new SbxError("tray.no_bus", "there is no D-Bus session bus, so there is no tray to be in", {
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
  return new SbxError("tray.no_bus", "the D-Bus session bus does not answer, so there is no tray to be in", {
    cause,
    hint: HINT,
  });
}

/**
 * Puts the icon into the tray, and again whenever another tray takes over, as after a restart of the panel.
 *
 * @throws {SbxError} `tray.no_bus`, `tray.no_host`
 */
export async function register(bus: dbus.MessageBus): Promise<void> {
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
      // The tray that came may be gone again.
      Promise.resolve(registerOnce(bus)).catch(() => {});
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
