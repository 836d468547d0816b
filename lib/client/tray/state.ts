import type { AskView, VmSummary } from "../api/schema.ts";

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
