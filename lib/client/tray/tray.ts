/** The tray: icon, menu, the actions of its entries, and its place on the session bus. */
import dbus from "dbus-native";
import { asSbxError, ignore, SbxError } from "../../base/error/mod.ts";
import { closeBus, connectBus } from "../../base/dbus/mod.ts";
import { READ_MS } from "../../policy/ask/mod.ts";
import {
  DbusMenu,
  MENU_PATH,
  menuOf,
  OFFLINE,
  pausable,
  paused,
  summaryOf,
  type TrayAction,
  type TrayState,
} from "./menu.ts";

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
  readonly #item: TrayItem;
  readonly #end: () => void;
  #state: TrayState = OFFLINE;
  /** `ms`: the last time an entry of an ask came or moved */
  #movedAt = 0;

  private constructor(options: TrayOptions, bus: dbus.MessageBus) {
    this.#options = options;
    this.#bus = bus;
    this.#menu = new DbusMenu((action) => void this.#run(action));
    this.#item = new TrayItem(OFFLINE, () => void this.#run({ do: "open" }));
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
      tray.#item.exported();
      tray.#menu.exported();
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

  /** A click that comes sooner was meant for the entry that was in this place before. */
  async #answer({ ask, digest, decision }: TrayAction & { do: "answer" }): Promise<void> {
    if (performance.now() - this.#movedAt < READ_MS) {
      return this.#options.report(`${ask} is not answered: the menu had just changed`);
    }
    const path = `/asks/${encodeURIComponent(ask)}/resolve`;
    await this.#options.send("POST", path, { decision, scope: "once", digest });
  }

  /** One VM that fails keeps no other from it. */
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
    {
      cause,
      hint: HINT,
    },
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
      Promise.resolve(registerOnce(bus)).catch(ignore("the tray that came may be gone again"));
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

// The interface `org.kde.StatusNotifierItem`: the icon in a tray, and its clicks.

const ITEM_PATH = "/StatusNotifierItem";
const ITEM_INTERFACE = "org.kde.StatusNotifierItem";

/** One icon on a bus. */
class TrayItem {
  readonly definition: dbus.DefinedInterface;
  #state: TrayState;
  #isExported = false;

  /** @param onActivate a click on the icon */
  constructor(state: TrayState, onActivate: () => void) {
    this.#state = state;
    const property = (type: string, get: () => unknown) => ({ type, access: "read" as const, get });
    const fixed = (type: string, value: unknown) => ({ type, access: "read" as const, value });
    const place = { x: "i", y: "i" };
    this.definition = dbus.defineInterface({
      name: ITEM_INTERFACE,
      methods: {
        Activate: { in: place, handler: () => onActivate() },
        SecondaryActivate: { in: place, handler: () => onActivate() },
        ContextMenu: { in: place, handler: () => {} },
        Scroll: { in: { delta: "i", orientation: "s" }, handler: () => {} },
      },
      properties: {
        Category: fixed("s", "ApplicationStatus"),
        Id: fixed("s", "sbx"),
        Title: fixed("s", "sbx"),
        Status: property("s", () => this.#status()),
        WindowId: fixed("i", 0),
        IconThemePath: fixed("s", ""),
        IconName: fixed("s", ""),
        IconPixmap: property("a(iiay)", () => this.#icon()),
        OverlayIconName: fixed("s", ""),
        OverlayIconPixmap: fixed("a(iiay)", []),
        AttentionIconName: fixed("s", ""),
        AttentionIconPixmap: property("a(iiay)", () => this.#icon()),
        AttentionMovieName: fixed("s", ""),
        ToolTip: property("(sa(iiay)ss)", () => ["", [], "sbx", summaryOf(this.#state)]),
        ItemIsMenu: fixed("b", false),
        Menu: fixed("o", MENU_PATH),
      },
      signals: {
        NewTitle: {},
        NewIcon: {},
        NewAttentionIcon: {},
        NewOverlayIcon: {},
        NewToolTip: {},
        NewStatus: { args: { status: "s" } },
      },
    });
  }

  /** To be called once the definition is exported: hosts hear of changes from now on. */
  exported(): void {
    this.#isExported = true;
  }

  set(state: TrayState): void {
    const before = { look: this.#look(), text: summaryOf(this.#state) };
    this.#state = state;
    if (!this.#isExported) return;
    const { emit } = this.definition;
    if (this.#look() !== before.look) {
      emit.NewIcon();
      emit.NewAttentionIcon();
      emit.NewStatus(this.#status());
    }
    if (summaryOf(state) !== before.text) emit.NewToolTip();
  }

  #status(): string {
    return this.#state.asks.length > 0 ? "NeedsAttention" : "Active";
  }

  #look(): string {
    return `${this.#state.isOnline} ${this.#status()}`;
  }

  #icon(): Pixmap[] {
    return iconOf(this.#state.isOnline, this.#state.asks.length > 0);
  }
}

// The tray's icon, drawn here: a host knows no icon theme that has one of sbx.

/** Width, height and bytes of an icon, as in `a(iiay)` of a StatusNotifierItem. */
type Pixmap = [width: number, height: number, argb: Uint8Array];

type Colour = [alpha: number, red: number, green: number, blue: number];
const BLUE: Colour = [255, 0x1f, 0x5f, 0xbf];
const GREY: Colour = [255, 0x80, 0x80, 0x80];
const WHITE: Colour = [255, 255, 255, 255];
const ORANGE: Colour = [255, 0xe0, 0x7b, 0x00];
const CLEAR: Colour = [0, 0, 0, 0];
/** Sizes that panels use; hosts scale the nearest. */
const SIZES = [22, 32, 48];
/** Points a side of a pixel that are averaged, for smooth edges. */
const SAMPLES = 3;

/** @param isOnline grey without; @param hasAsks with a dot */
function iconOf(isOnline: boolean, hasAsks: boolean): Pixmap[] {
  return SIZES.map((size) => [size, size, draw(size, isOnline ? BLUE : GREY, hasAsks)]);
}

function draw(size: number, ground: Colour, hasAsks: boolean): Uint8Array {
  const bytes = new Uint8Array(size * size * 4);
  for (let at = 0; at < size * size; at++) {
    const sum = [0, 0, 0, 0];
    for (let sample = 0; sample < SAMPLES * SAMPLES; sample++) {
      const x = (at % size + (sample % SAMPLES + 0.5) / SAMPLES) * 16 / size;
      const y = (Math.floor(at / size) + (Math.floor(sample / SAMPLES) + 0.5) / SAMPLES) * 16 / size;
      const colour = colourAt(x, y, ground, hasAsks);
      colour.forEach((part, index) => sum[index] += index === 0 ? part : part * colour[0] / 255);
    }
    const alpha = sum[0] / SAMPLES ** 2;
    bytes[at * 4] = alpha;
    for (let index = 1; index < 4; index++) {
      bytes[at * 4 + index] = sum[0] === 0 ? 0 : sum[index] * 255 / sum[0];
    }
  }
  return bytes;
}

/** Colour at a point of the 16 × 16 drawing of cmd/desktop/icon.svg. */
function colourAt(x: number, y: number, ground: Colour, hasAsks: boolean): Colour {
  if (hasAsks && Math.hypot(x - 12.5, y - 3.5) < 3.5) return ORANGE;
  if (!isInSquare(x, y)) return CLEAR;
  const isPrompt = isNear(x, y, [4, 5], [7, 8]) || isNear(x, y, [7, 8], [4, 11]);
  return isPrompt || isNear(x, y, [8, 11], [12, 11]) ? WHITE : ground;
}

/** The square from 1 to 15 with corners of radius 3. */
function isInSquare(x: number, y: number): boolean {
  const [dx, dy] = [Math.abs(x - 8) - 4, Math.abs(y - 8) - 4].map((part) => Math.max(0, part));
  return Math.hypot(dx, dy) < 3;
}

/** True if a point is on the line of width 1.6 between two others. */
function isNear(x: number, y: number, [ax, ay]: number[], [bx, by]: number[]): boolean {
  const length = (bx - ax) ** 2 + (by - ay) ** 2;
  const along = Math.min(1, Math.max(0, ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length));
  return Math.hypot(x - ax - along * (bx - ax), y - ay - along * (by - ay)) < 0.8;
}
