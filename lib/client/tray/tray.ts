/** The tray: icon, menu, and the actions of its entries. */
import type dbus from "dbus-native";
import { asSbxError } from "../../base/error/mod.ts";
import { closeBus } from "../../base/dbus/mod.ts";
import { READ_MS } from "../../policy/ask/mod.ts";
import { openBus, register } from "./bus.ts";
import { DbusMenu, MENU_PATH } from "./dbus_menu.ts";
import { ITEM_PATH, TrayItem } from "./item.ts";
import { menuOf, pausable, paused, type TrayAction } from "./menu.ts";
import { OFFLINE, type TrayState } from "./state.ts";

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
