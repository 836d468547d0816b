/** What all pages share: signals that answers and the events socket fill. */
import { computed, signal } from "@preact/signals";
import type { AskView, Settings, VmSummary } from "../api/routes.ts";

/** `signed-out`: the browser needs a new link; `offline`: the gateway or the service is away. */
export type Connection = "connecting" | "online" | "offline" | "signed-out";

export const connection = signal<Connection>("connecting");
export const vms = signal<VmSummary[]>([]);
/** Asks that wait, the newest first. */
export const asks = signal<AskView[]>([]);
export const settings = signal<Settings>();
/** Messages at the edge of the page, for actions without a visible effect. */
export const notice = signal<{ text: string; isError: boolean }>();

export const vmNames = computed(() => new Map(vms.value.map(({ id, name }) => [id, name])));

export function putVm(vm: VmSummary): void {
  const others = vms.value.filter(({ id }) => id !== vm.id);
  vms.value = [...others, vm].toSorted((a, b) => a.name.localeCompare(b.name));
}

export function putAsk(ask: AskView): void {
  const others = asks.value.filter(({ ask_id }) => ask_id !== ask.ask_id);
  asks.value = (ask.status === "pending" ? [ask, ...others] : others)
    .toSorted((a, b) => b.created_at.localeCompare(a.created_at));
}
