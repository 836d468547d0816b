/**
 * The tray's icon on the session bus, by the interface `org.kde.StatusNotifierItem`. It is drawn here, since
 * no icon theme has one for sbx.
 */
import dbus from "dbus-native";
import { MENU_PATH } from "./dbus_menu.ts";
import { summaryOf, type TrayState } from "./menu.ts";

export const ITEM_PATH = "/StatusNotifierItem";
const ITEM_INTERFACE = "org.kde.StatusNotifierItem";

/** The icon on one bus. */
export class DbusItem {
  readonly definition: dbus.DefinedInterface;
  #state: TrayState;
  #isExported = false;

  /** @param onActivate called for each click on the icon */
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

  /** Starts the signals of changes; call it once the definition is exported. */
  markExported(): void {
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

/** Width, height and bytes of an icon, as in `a(iiay)` of a StatusNotifierItem. */
type Pixmap = [width: number, height: number, argb: Uint8Array];

type Colour = [alpha: number, red: number, green: number, blue: number];
const BLUE: Colour = [255, 0x1f, 0x5f, 0xbf];
const GREY: Colour = [255, 0x80, 0x80, 0x80];
const WHITE: Colour = [255, 255, 255, 255];
const ORANGE: Colour = [255, 0xe0, 0x7b, 0x00];
const CLEAR: Colour = [0, 0, 0, 0];
/** Sizes in pixels that panels use; hosts scale the nearest. */
const SIZES = [22, 32, 48];
/** Side of the square drawing, in units of its coordinates. */
const SIDE = 16;
/** Samples along each side of a pixel, averaged for smooth edges. */
const SAMPLES = 3;

/** The icon in every size: grey while sbx does not run, with a dot while asks are pending. */
function iconOf(isOnline: boolean, hasAsks: boolean): Pixmap[] {
  return SIZES.map((size) => [size, size, draw(size, isOnline ? BLUE : GREY, hasAsks)]);
}

function draw(size: number, ground: Colour, hasAsks: boolean): Uint8Array {
  const bytes = new Uint8Array(size * size * 4);
  for (let at = 0; at < size * size; at++) {
    const sum = [0, 0, 0, 0];
    for (let sample = 0; sample < SAMPLES * SAMPLES; sample++) {
      const x = (at % size + (sample % SAMPLES + 0.5) / SAMPLES) * SIDE / size;
      const y = (Math.floor(at / size) + (Math.floor(sample / SAMPLES) + 0.5) / SAMPLES) * SIDE / size;
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

/** Colour at a point of the drawing, which is that of cmd/desktop/icon.svg. */
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
