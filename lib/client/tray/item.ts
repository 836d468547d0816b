/** The interface `org.kde.StatusNotifierItem`: the icon in a tray, and its clicks. */
import dbus from "dbus-native";
import { MENU_PATH } from "./dbus_menu.ts";
import { iconOf, type Pixmap } from "./icon.ts";
import { summaryOf } from "./menu.ts";
import type { TrayState } from "./state.ts";

export const ITEM_PATH = "/StatusNotifierItem";
const ITEM_INTERFACE = "org.kde.StatusNotifierItem";

/** One icon on a bus. */
export class TrayItem {
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
