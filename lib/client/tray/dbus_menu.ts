/**
 * A menu on the session bus, which tray hosts read and draw: the interface `com.canonical.dbusmenu`, version
 * 3.
 */
import dbus from "dbus-native";
import type { MenuEntry, TrayAction } from "./menu.ts";

export const MENU_PATH = "/MenuBar";
const MENU_INTERFACE = "com.canonical.dbusmenu";
const LAYOUT_TYPE = "(ia{sv}av)";
/** Id of the menu itself. */
const ROOT = 0;

type Properties = Record<string, dbus.Variant>;
type Layout = [id: number, properties: Properties, children: dbus.Variant[]];
interface Node {
  id: number;
  properties: Properties;
  action?: TrayAction;
  children: Node[];
}

/** One menu on a bus. */
export class DbusMenu {
  readonly definition: dbus.DefinedInterface;
  readonly #onAction: (action: TrayAction) => void;
  /** of the shown entries, by key; no id is used twice: a late click on an old menu finds no other entry */
  readonly #ids = new Map<string, number>();
  #nextId = ROOT + 1;
  #revision = 1;
  #entries: MenuEntry[] = [];
  #root = rootOf([]);
  #isExported = false;

  constructor(onAction: (action: TrayAction) => void) {
    this.#onAction = onAction;
    this.definition = dbus.defineInterface({
      name: MENU_INTERFACE,
      methods: {
        GetLayout: {
          in: { parentId: "i", recursionDepth: "i", propertyNames: "as" },
          out: { revision: "u", layout: LAYOUT_TYPE },
          handler: ({ parentId, recursionDepth, propertyNames }) => ({
            revision: this.#revision,
            layout: layoutOf(this.#require(parentId), recursionDepth, propertyNames),
          }),
        },
        GetGroupProperties: {
          in: { ids: "ai", propertyNames: "as" },
          out: { properties: "a(ia{sv})" },
          handler: ({ ids, propertyNames }) =>
            this.#nodes(ids).map(({ id, properties }) => [id, pick(properties, propertyNames)]),
        },
        GetProperty: {
          in: { id: "i", name: "s" },
          out: { value: "v" },
          handler: ({ id, name }) => {
            const { properties } = this.#require(id);
            if (!Object.hasOwn(properties, name)) throw new Error(`entry ${id} has no property ${name}`);
            return properties[name];
          },
        },
        Event: {
          in: { id: "i", eventId: "s", data: "v", timestamp: "u" },
          handler: ({ id, eventId }) => void this.#onEvent(id, eventId),
        },
        EventGroup: {
          in: { events: "a(isvu)" },
          out: { idErrors: "ai" },
          handler: ({ events }: { events: [number, string][] }) =>
            events.filter(([id, eventId]) => !this.#onEvent(id, eventId)).map(([id]) => id),
        },
        AboutToShow: { in: { id: "i" }, out: { needUpdate: "b" }, handler: () => false },
        AboutToShowGroup: {
          in: { ids: "ai" },
          out: { updatesNeeded: "ai", idErrors: "ai" },
          handler: ({ ids }: { ids: number[] }) => ({
            updatesNeeded: [],
            idErrors: ids.filter((id) => this.#find(id) === undefined),
          }),
        },
      },
      properties: {
        Version: { type: "u", access: "read", value: 3 },
        TextDirection: { type: "s", access: "read", value: "ltr" },
        Status: { type: "s", access: "read", value: "normal" },
        IconThemePath: { type: "as", access: "read", value: [] },
      },
      signals: {
        ItemsPropertiesUpdated: { args: { updated: "a(ia{sv})", removed: "a(ias)" } },
        LayoutUpdated: { args: { revision: "u", parent: "i" } },
        ItemActivationRequested: { args: { id: "i", timestamp: "u" } },
      },
    });
  }

  /** Starts the signals of changes; call it once the definition is exported. */
  markExported(): void {
    this.#isExported = true;
  }

  /** Replaces the entries, and signals a change to hosts. */
  set(entries: MenuEntry[]): void {
    if (JSON.stringify(entries) === JSON.stringify(this.#entries)) return;
    this.#entries = entries;
    this.#root = rootOf(entries.map((entry) => this.#nodeOf(entry)));
    const shown = new Set(nodesOf(this.#root).map(({ id }) => id));
    for (const [key, id] of this.#ids) if (!shown.has(id)) this.#ids.delete(key);
    this.#revision++;
    if (this.#isExported) this.definition.emit.LayoutUpdated(this.#revision, ROOT);
  }

  #nodeOf({ key, label, action, children = [] }: MenuEntry): Node {
    let id = this.#ids.get(key);
    if (id === undefined) this.#ids.set(key, id = this.#nextId++);
    const properties: Properties = label === undefined ? { type: text("separator") } : {
      // An underscore marks the letter that chooses an entry.
      label: text(label.replaceAll("_", "__")),
      ...action === undefined && children.length === 0 && { enabled: new dbus.Variant("b", false) },
      ...children.length > 0 && { "children-display": text("submenu") },
    };
    return { id, properties, action, children: children.map((child) => this.#nodeOf(child)) };
  }

  /** Runs the action of a clicked entry. @returns false for an entry that is not in the menu */
  #onEvent(id: number, eventId: string): boolean {
    const node = this.#find(id);
    if (eventId === "clicked" && node?.action) this.#onAction(node.action);
    return node !== undefined;
  }

  #require(id: number): Node {
    const node = this.#find(id);
    if (node === undefined) throw new Error(`the menu has no entry ${id}`);
    return node;
  }

  /** Nodes of these ids; without ids, all. */
  #nodes(ids: number[]): Node[] {
    const all = nodesOf(this.#root);
    return ids.length === 0 ? all : all.filter(({ id }) => ids.includes(id));
  }

  #find(id: number): Node | undefined {
    return nodesOf(this.#root).find((node) => node.id === id);
  }
}

/** @param depth levels of children; negative: all */
function layoutOf({ id, properties, children }: Node, depth: number, names: string[]): Layout {
  const shown = depth === 0 ? [] : children;
  const layouts = shown.map((child) => new dbus.Variant(LAYOUT_TYPE, layoutOf(child, depth - 1, names)));
  return [id, pick(properties, names), layouts];
}

function rootOf(children: Node[]): Node {
  return { id: ROOT, properties: { "children-display": text("submenu") }, children };
}

function nodesOf(node: Node): Node[] {
  return [node, ...node.children.flatMap(nodesOf)];
}

/** @param names empty: all */
function pick(properties: Properties, names: string[]): Properties {
  if (names.length === 0) return properties;
  return Object.fromEntries(Object.entries(properties).filter(([name]) => names.includes(name)));
}

function text(value: string): dbus.Variant {
  return new dbus.Variant("s", value);
}
