/** The tray's state, and the menu for it: entries and their actions. */
import { plain } from "../../base/print/mod.ts";
import { count } from "../../base/text/mod.ts";
import type { AskView, VmSummary } from "../api/schema.ts";
import dbus from "dbus-native";

/** Parts of a VM and of an ask that the tray shows. */
export type TrayVm = Pick<VmSummary, "id" | "name" | "status" | "available_actions">;
export type TrayAsk = Pick<AskView, "ask_id" | "digest" | "session_id" | "subject" | "status">;

/** The state shown by the tray; without sbx there are no VMs and no asks. */
export interface TrayState {
  isOnline: boolean;
  vms: TrayVm[];
  /** asks that wait, the oldest first */
  asks: TrayAsk[];
}

export const OFFLINE: TrayState = { isOnline: false, vms: [], asks: [] };

/** A message of `WS /events`. */
export interface TrayMessage {
  type: string;
  payload: unknown;
}

/** The state after a message. */
export function stateAfter(state: TrayState, { type, payload }: TrayMessage): TrayState {
  if (type === "vm-state-changed") {
    const vm = payload as TrayVm;
    return { ...state, vms: [...state.vms.filter(({ id }) => id !== vm.id), vm] };
  }
  if (type === "vm-deleted") {
    const { id } = payload as { id: string };
    return { ...state, vms: state.vms.filter((vm) => vm.id !== id) };
  }
  if (type === "ask") {
    const ask = payload as TrayAsk;
    const others = state.asks.filter(({ ask_id }) => ask_id !== ask.ask_id);
    return { ...state, asks: ask.status === "pending" ? [...others, ask] : others };
  }
  return state;
}

/** VMs and asks that the menu shows; the desktop shows all. */
const VMS_SHOWN = 10, ASKS_SHOWN = 5;
/** Characters of an ask's subject that are shown. */
const SUBJECT_SHOWN = 80;

/** The action of a chosen entry. */
export type TrayAction =
  | { do: "open" | "start" | "pause" | "resume" | "quit" }
  | { do: "answer"; ask: string; digest: string; decision: "allow" | "deny" };

interface MenuEntry {
  /** Name of the entry while the tray runs: another entry never has it. */
  key: string;
  /** absent: a line between entries */
  label?: string;
  action?: TrayAction;
  children?: MenuEntry[];
}

/** State in one line, without a text of a guest: hosts may read it as markup. */
export function summaryOf({ isOnline, vms, asks }: TrayState): string {
  if (!isOnline) return "sbx is not running";
  const running = vms.filter(isRunning).length;
  const paused = vms.filter(({ status }) => status === "Paused").length;
  return [
    `${running === 0 ? "no VM" : count(running, "VM")} running`,
    ...paused > 0 ? [`${paused} paused`] : [],
    ...asks.length > 0 ? [`${count(asks.length, "ask")} waiting`] : [],
  ].join(", ");
}

/** Entries of the menu for a state. */
export function menuOf(state: TrayState): MenuEntry[] {
  const line = (key: string): MenuEntry => ({ key });
  const shown = state.vms.filter(({ status }) => status !== "Stopped" && status !== "Defunct");
  return [
    { key: "summary", label: summaryOf(state) },
    ...asksOf(state),
    ...shown.length > 0 ? [line("line-vms")] : [],
    ...shown.slice(0, VMS_SHOWN).map(({ id, name, status }) => ({
      key: `vm-${id}`,
      label: `${name}: ${status.toLowerCase()}`,
    })),
    ...shown.length > VMS_SHOWN
      ? [{ key: "vms-more", label: `${shown.length - VMS_SHOWN} more in the desktop` }]
      : [],
    line("line-actions"),
    { key: "open", label: "Open the desktop", action: { do: "open" } },
    ...state.isOnline ? [] : [{ key: "start", label: "Start sbx", action: { do: "start" } } as const],
    ...pausable(state).length > 0
      ? [{ key: "pause", label: "Pause all VMs", action: { do: "pause" } } as const]
      : [],
    ...paused(state).length > 0
      ? [{ key: "resume", label: "Resume paused VMs", action: { do: "resume" } } as const]
      : [],
    line("line-quit"),
    { key: "quit", label: "Quit (VMs go on)", action: { do: "quit" } },
  ];
}

/** VMs that can be paused, and VMs that are. */
export function pausable({ vms }: TrayState): TrayVm[] {
  return vms.filter(({ available_actions }) => available_actions.includes("pause"));
}

export function paused({ vms }: TrayState): TrayVm[] {
  return vms.filter(({ status, available_actions }) =>
    status === "Paused" && available_actions.includes("resume")
  );
}

function asksOf({ asks, vms }: TrayState): MenuEntry[] {
  const names = new Map(vms.map(({ id, name }) => [id, name]));
  const entries = asks.slice(0, ASKS_SHOWN).map(({ ask_id, digest, session_id, subject }): MenuEntry => ({
    key: `ask-${ask_id}`,
    label: `${names.get(session_id) ?? "a VM"} asks: ${plain(subject).slice(0, SUBJECT_SHOWN)}`,
    children: (["allow", "deny"] as const).map((decision) => ({
      key: `${decision}-${ask_id}`,
      label: decision === "allow" ? "Allow once" : "Deny",
      action: { do: "answer", ask: ask_id, digest, decision },
    })),
  }));
  if (entries.length === 0) return [];
  const more = asks.length - entries.length;
  return [
    { key: "line-asks" },
    ...entries,
    ...more > 0 ? [{ key: "asks-more", label: `${more} more in the desktop` }] : [],
  ];
}

function isRunning({ status }: TrayVm): boolean {
  return status === "Running" || status === "Booting";
}

// The interface `com.canonical.dbusmenu`, version 3: a menu that a tray host reads and draws.

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
  /**
   * of the entries shown, by key; no id is used twice, so that a late click on an old menu hits nothing else
   */
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
            this.#some(ids).map(({ id, properties }) => [id, pick(properties, propertyNames)]),
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
          handler: ({ id, eventId }) => void this.#take(id, eventId),
        },
        EventGroup: {
          in: { events: "a(isvu)" },
          out: { idErrors: "ai" },
          handler: ({ events }: { events: [number, string][] }) =>
            events.filter(([id, eventId]) => !this.#take(id, eventId)).map(([id]) => id),
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

  /** To be called once the definition is exported: hosts hear of changes from now on. */
  exported(): void {
    this.#isExported = true;
  }

  /** Replaces the entries, and reports the changes to hosts. */
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

  /** @returns false for an entry that is not in the menu */
  #take(id: number, eventId: string): boolean {
    const node = this.#find(id);
    if (eventId === "clicked" && node?.action) this.#onAction(node.action);
    return node !== undefined;
  }

  #require(id: number): Node {
    const node = this.#find(id);
    if (node === undefined) throw new Error(`the menu has no entry ${id}`);
    return node;
  }

  /** Entries of these ids; all without ids. */
  #some(ids: number[]): Node[] {
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

/** @param names none: all */
function pick(properties: Properties, names: string[]): Properties {
  if (names.length === 0) return properties;
  return Object.fromEntries(Object.entries(properties).filter(([name]) => names.includes(name)));
}

function text(value: string): dbus.Variant {
  return new dbus.Variant("s", value);
}
