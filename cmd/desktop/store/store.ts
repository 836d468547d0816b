/**
 * State that all pages share: signals that answers and the events socket fill, and the outcome of actions.
 */
import { computed, type Signal, signal, useSignal } from "@preact/signals";
import type { AskView, Settings, VmListed, VmSummary } from "../api/routes.ts";
import { ApiError } from "../api/client.ts";
import { useEffect, useMemo } from "preact/hooks";
import { Turns } from "./turns.ts";

/** `signed-out`: the browser needs a new link; `offline`: the gateway or the service is away. */
export type Connection = "connecting" | "online" | "offline" | "signed-out";

export const connection = signal<Connection>("connecting");
export const vms = signal<VmListed[]>([]);
/** Asks that wait, the newest first. */
export const asks = signal<AskView[]>([]);
export const settings = signal<Settings>();
/** Messages at the edge of the page, for actions without a visible effect. */
export const notice = signal<{ text: string; isError: boolean }>();

/** Names of sessions that are over, as far as pages have read them. */
export const pastNames = signal<ReadonlyMap<string, string>>(new Map());
export const vmNames = computed(() => new Map(vms.value.map(({ id, name }) => [id, name])));

export function putVm(vm: VmSummary): void {
  const others = vms.value.filter(({ id }) => id !== vm.id);
  // A change of state has everything but the VM's work: an error or a hold that it lacks is over.
  const { folder, repositories, active_at } = vms.value.find(({ id }) => id === vm.id) ?? {};
  vms.value = [...others, { folder, repositories, active_at, ...vm }]
    .toSorted((a, b) => a.name.localeCompare(b.name));
}

export function putAsk(ask: AskView): void {
  const others = asks.value.filter(({ ask_id }) => ask_id !== ask.ask_id);
  asks.value = (ask.status === "pending" ? [ask, ...others] : others)
    .toSorted((a, b) => b.created_at.localeCompare(a.created_at));
}

/**
 * Runs a person's action and reports the outcome: errors always, success in the words of `done`.
 *
 * @returns whether it succeeded
 */
export async function act(work: () => Promise<unknown>, done?: string): Promise<boolean> {
  try {
    await work();
    if (done !== undefined) notice.value = { text: done, isError: false };
    return true;
  } catch (error) {
    notice.value = { text: textOf(error), isError: true };
    return false;
  }
}

export function textOf(error: unknown): string {
  if (error instanceof ApiError) return error.hint ? `${error.message}; ${error.hint}` : error.message;
  return error instanceof Error ? error.message : String(error);
}

/**
 * The answer of `read`: absent until there is one; read again when `keys` change, by `reload`, and when the
 * service is back after an outage.
 */
export function useLoaded<T>(read: () => Promise<T>, keys: unknown[] = []): {
  value: Signal<T | undefined>;
  reload: () => Promise<boolean>;
} {
  const value = useSignal<T | undefined>(undefined);
  const turns = useMemo(() => new Turns(), []);
  const reload = () => act(() => turns.take(read, (answer) => value.value = answer));
  const isOnline = connection.value === "online";
  useEffect(() => {
    // Changes made while the service was away are read once it is back.
    if (isOnline) reload();
  }, [isOnline, ...keys]);
  return { value, reload };
}
