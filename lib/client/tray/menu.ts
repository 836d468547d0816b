/** The tray's state, its changes by messages of the gateway, and the menu entries for it. */
import { plain } from "../../base/print/mod.ts";
import { count } from "../../base/text/mod.ts";
import type { AskView, VmSummary } from "../api/schema.ts";

/** The fields of a VM that the tray uses. */
export type TrayVm = Pick<VmSummary, "id" | "name" | "status" | "available_actions">;
/** The fields of an ask that the tray uses. */
export type TrayAsk = Pick<AskView, "ask_id" | "digest" | "session_id" | "subject" | "status">;

/** The state that the tray shows. */
export interface TrayState {
  /** sbx answers; otherwise there are no VMs and no asks */
  isOnline: boolean;
  vms: TrayVm[];
  /** pending, the oldest first */
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

/** Most VMs and asks in the menu; the desktop shows all. */
const VMS_SHOWN = 10, ASKS_SHOWN = 5;
/** Most characters of an ask's subject. */
const SUBJECT_SHOWN = 80;

/** The action of a chosen entry. */
export type TrayAction =
  | { do: "open" | "start" | "pause" | "resume" | "quit" }
  | { do: "answer"; ask: string; digest: string; decision: "allow" | "deny" };

/** An entry of the menu; without an action and without children it is a disabled line of text. */
export interface MenuEntry {
  /** stays the same while the tray runs, and is never another entry's */
  key: string;
  /** absent: a separator */
  label?: string;
  action?: TrayAction;
  children?: MenuEntry[];
}

/** The state in one line, without any text of a guest: tray hosts may read it as markup. */
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
  const shown = state.vms.filter(({ status }) => status !== "Stopped" && status !== "Defunct");
  return [
    { key: "summary", label: summaryOf(state) },
    ...asksOf(state),
    ...shown.length > 0 ? [{ key: "line-vms" }] : [],
    ...shown.slice(0, VMS_SHOWN).map(({ id, name, status }) => ({
      key: `vm-${id}`,
      label: `${name}: ${status.toLowerCase()}`,
    })),
    ...shown.length > VMS_SHOWN
      ? [{ key: "vms-more", label: `${shown.length - VMS_SHOWN} more in the desktop` }]
      : [],
    { key: "line-actions" },
    { key: "open", label: "Open the desktop", action: { do: "open" } },
    ...state.isOnline ? [] : [{ key: "start", label: "Start sbx", action: { do: "start" } } as const],
    ...pausable(state).length > 0
      ? [{ key: "pause", label: "Pause all VMs", action: { do: "pause" } } as const]
      : [],
    ...paused(state).length > 0
      ? [{ key: "resume", label: "Resume paused VMs", action: { do: "resume" } } as const]
      : [],
    { key: "line-quit" },
    { key: "quit", label: "Quit (VMs keep running)", action: { do: "quit" } },
  ];
}

/** VMs that "Pause all VMs" pauses. */
export function pausable({ vms }: TrayState): TrayVm[] {
  return vms.filter(({ available_actions }) => available_actions.includes("pause"));
}

/** VMs that "Resume paused VMs" resumes. */
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
